#include "runtime/spec/elf_sections.h"

#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace chainio::spec {
namespace {

struct ElfCloser {
    void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfHandle = std::unique_ptr<Elf, ElfCloser>;

constexpr std::size_t kMostSections = 4096;
constexpr std::size_t kMostSymbols = 65536;

// A section's bytes by its header's own numbers, checked against the file: libelf would hand out what a hostile header
// says.
std::span<const std::uint8_t> section_bytes(const GElf_Shdr& header, std::span<const std::uint8_t> file) {
    if (header.sh_type == SHT_NOBITS || header.sh_offset > file.size()) return {};
    if (header.sh_size > file.size() - header.sh_offset) return {};
    return file.subspan(header.sh_offset, header.sh_size);
}

std::string_view string_at(std::span<const std::uint8_t> table, std::size_t offset) {
    if (offset >= table.size()) return {};
    const auto* begin = reinterpret_cast<const char*>(table.data()) + offset;
    return {begin, strnlen(begin, table.size() - offset)};
}

template <typename T>
T load(std::span<const std::uint8_t> bytes, std::size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

void collect_programs(std::span<const std::uint8_t> symbols, std::span<const std::uint8_t> names, ElfSections& out) {
    const std::size_t count = std::min(symbols.size() / sizeof(Elf64_Sym), kMostSymbols);
    for (std::size_t i = 0; i < count; i++) {
        const auto symbol = load<Elf64_Sym>(symbols, i * sizeof(Elf64_Sym));
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
        const std::string_view name = string_at(names, symbol.st_name);
        if (name.starts_with("cio_run_")) out.bpf_programs.emplace_back(name);
    }
}

struct Header {
    GElf_Shdr header;
    std::string_view name;
};

std::unexpected<std::string> damaged(const char* what) {
    return std::unexpected(std::string(what) +
                           ", as when it is cut short; `chainc app.chain -o app.bpf.o` makes it anew");
}

std::expected<std::vector<Header>, std::string> headers_of(Elf* elf, std::span<const std::uint8_t> file) {
    std::size_t names_index = 0;
    if (elf_getshdrstrndx(elf, &names_index) != 0) return damaged("its section names cannot be read");
    std::vector<Header> headers;
    Elf_Scn* section = nullptr;
    while ((section = elf_nextscn(elf, section)) != nullptr && headers.size() < kMostSections) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == nullptr) return damaged("a section header cannot be read");
        headers.push_back({header, {}});
    }
    // Section 0 is not among those that elf_nextscn hands out, so number n is at n - 1.
    if (names_index == 0 || names_index > headers.size()) return damaged("it has no section names");
    const auto names = section_bytes(headers[names_index - 1].header, file);
    for (auto& entry : headers) entry.name = string_at(names, entry.header.sh_name);
    return headers;
}

}  // namespace

std::expected<ElfSections, std::string> read_sections(std::span<const std::uint8_t> file) {
    if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) {
        return std::unexpected("it is not an ELF file; `chainc app.chain -o app.bpf.o` makes an artifact");
    }
    if (elf_version(EV_CURRENT) == EV_NONE) return std::unexpected("libelf does not know this version of ELF");
    // libelf's in-memory mode wants a writable pointer; nothing is written without ELF_C_WRITE.
    ElfHandle elf(elf_memory(const_cast<char*>(reinterpret_cast<const char*>(file.data())), file.size()));
    if (!elf || elf_kind(elf.get()) != ELF_K_ELF || gelf_getclass(elf.get()) != ELFCLASS64) {
        return std::unexpected("it is not a 64-bit ELF file; `chainc app.chain -o app.bpf.o` makes an artifact");
    }
    auto headers = headers_of(elf.get(), file);
    if (!headers) return std::unexpected(headers.error());

    ElfSections out;
    bool found = false;
    for (const Header& entry : *headers) {
        const auto bytes = section_bytes(entry.header, file);
        if (entry.name == kSpecSection) {
            if (found) return std::unexpected("it has two sections .chainio.spec");
            found = true;
            out.spec = bytes;
        } else if (entry.name == kKernelSection) {
            out.kernel = bytes;
        } else if (entry.name == kServeSection) {
            out.serve = bytes;
        } else if (entry.name.starts_with(kNativePrefix)) {
            out.natives.push_back({std::string(entry.name.substr(kNativePrefix.size())), bytes});
        } else if (entry.header.sh_type == SHT_SYMTAB && entry.header.sh_link >= 1 &&
                   entry.header.sh_link <= headers->size()) {
            collect_programs(bytes, section_bytes((*headers)[entry.header.sh_link - 1].header, file), out);
        }
    }
    if (!found) return std::unexpected("it has no section .chainio.spec: it was not made by chainc");
    return out;
}

}  // namespace chainio::spec
