#include "compiler/backends/elf_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

namespace chainio::backends {
namespace {

std::unexpected<std::string> elf_failure(std::string_view doing) {
    return std::unexpected(fmt::format("{}: {}", doing, elf_errmsg(-1)));
}

class MemoryFile {
  public:
    MemoryFile() : fd_(memfd_create("chainio.elf", MFD_CLOEXEC)) {}
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    ~MemoryFile() {
        if (fd_ >= 0) close(fd_);
    }
    int fd() const { return fd_; }
    // Empty, with errno, when it cannot be read.
    std::vector<std::uint8_t> bytes() const {
        struct stat info{};
        if (fstat(fd_, &info) != 0) return {};
        std::vector<std::uint8_t> all(static_cast<std::size_t>(info.st_size));
        std::size_t done = 0;
        while (done < all.size()) {
            ssize_t n = pread(fd_, all.data() + done, all.size() - done, static_cast<off_t>(done));
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return {};
            done += static_cast<std::size_t>(n);
        }
        return all;
    }

  private:
    int fd_;
};

// Copies an ELF section by section, leaving some out.
class Copier {
  public:
    Copier(Elf* from, Elf* to) : from_(from), to_(to) {}

    bool copy() {
        GElf_Ehdr head;
        if (gelf_getehdr(from_, &head) == nullptr || elf_getshdrstrndx(from_, &names_index_) != 0) return false;
        if (gelf_newehdr(to_, ELFCLASS64) == 0) return false;
        GElf_Ehdr out;
        if (gelf_getehdr(to_, &out) == nullptr) return false;
        std::copy(std::begin(head.e_ident), std::end(head.e_ident), out.e_ident);
        out.e_machine = head.e_machine;
        out.e_type = head.e_type;
        out.e_flags = head.e_flags;
        out.e_version = head.e_version;
        number();
        out.e_shstrndx = static_cast<GElf_Half>(numbers_[names_index_]);
        if (gelf_update_ehdr(to_, &out) == 0) return false;
        for (Elf_Scn* section = nullptr; (section = elf_nextscn(from_, section)) != nullptr;)
            if (numbers_.contains(elf_ndxscn(section)) && !copy_section(section)) return false;
        return true;
    }

    bool add(const NewSection& fresh) {
        Elf_Scn* section = elf_newscn(to_);
        GElf_Shdr head;
        if (section == nullptr || gelf_getshdr(section, &head) == nullptr) return false;
        head.sh_name = static_cast<GElf_Word>(names_.size());
        names_.insert(names_.end(), fresh.name.begin(), fresh.name.end());
        names_.push_back('\0');
        head.sh_type = SHT_PROGBITS;
        head.sh_flags = 0;
        head.sh_addralign = 8;
        return gelf_update_shdr(section, &head) != 0 &&
               set_data(section, fresh.bytes.data(), fresh.bytes.size(), ELF_T_BYTE, 8) != nullptr;
    }

    bool finish() {
        names_data_->d_buf = names_.data();
        names_data_->d_size = names_.size();
        return elf_update(to_, ELF_C_WRITE) >= 0;
    }

  private:
    void number() {
        std::size_t next = 1;
        for (Elf_Scn* section = nullptr; (section = elf_nextscn(from_, section)) != nullptr;) {
            GElf_Shdr head;
            if (gelf_getshdr(section, &head) == nullptr) continue;
            const char* name = elf_strptr(from_, names_index_, head.sh_name);
            std::string_view word = name != nullptr ? name : "";
            if (word.starts_with(".debug_") || word.starts_with(".rel.debug_") || word == ".llvm_addrsig") continue;
            numbers_[elf_ndxscn(section)] = next++;
        }
    }

    std::size_t number_of(std::size_t old) const {
        auto found = numbers_.find(old);
        return found == numbers_.end() ? 0 : found->second;
    }

    Elf_Data* set_data(Elf_Scn* section, const std::uint8_t* bytes, std::size_t size, Elf_Type type,
                       std::size_t align) {
        Elf_Data* data = elf_newdata(section);
        if (data == nullptr) return nullptr;
        data->d_buf = const_cast<std::uint8_t*>(bytes);
        data->d_size = size;
        data->d_type = type;
        data->d_align = align;
        data->d_version = EV_CURRENT;
        return data;
    }

    bool copy_section(Elf_Scn* section) {
        GElf_Shdr head;
        if (gelf_getshdr(section, &head) == nullptr) return false;
        Elf_Data* from = elf_getdata(section, nullptr);
        Elf_Scn* target = elf_newscn(to_);
        GElf_Shdr out;
        if (from == nullptr || target == nullptr || gelf_getshdr(target, &out) == nullptr) return false;
        out = head;
        out.sh_link = static_cast<GElf_Word>(number_of(head.sh_link));
        if (head.sh_type == SHT_REL || head.sh_type == SHT_RELA)
            out.sh_info = static_cast<GElf_Word>(number_of(head.sh_info));
        if (gelf_update_shdr(target, &out) == 0) return false;
        Elf_Data* to =
            set_data(target, static_cast<std::uint8_t*>(from->d_buf), from->d_size, from->d_type, head.sh_addralign);
        if (to == nullptr) return false;
        if (elf_ndxscn(section) == names_index_) {
            auto* text = static_cast<char*>(from->d_buf);
            names_.assign(text, text + from->d_size);
            names_data_ = to;
        }
        if (head.sh_type == SHT_SYMTAB) {
            symbols_.assign(static_cast<std::uint8_t*>(from->d_buf),
                            static_cast<std::uint8_t*>(from->d_buf) + from->d_size);
            to->d_buf = symbols_.data();
            renumber_symbols(to, head.sh_entsize != 0 ? head.sh_size / head.sh_entsize : 0);
        }
        return true;
    }

    void renumber_symbols(Elf_Data* data, std::size_t count) {
        for (std::size_t i = 0; i < count; i++) {
            GElf_Sym symbol;
            if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) continue;
            if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= SHN_LORESERVE) continue;
            symbol.st_shndx = static_cast<GElf_Section>(number_of(symbol.st_shndx));
            gelf_update_sym(data, static_cast<int>(i), &symbol);
        }
    }

    Elf* from_;
    Elf* to_;
    std::size_t names_index_ = 0;
    std::map<std::size_t, std::size_t> numbers_;  // old section -> new section
    std::vector<char> names_;
    Elf_Data* names_data_ = nullptr;
    std::vector<std::uint8_t> symbols_;
};

}  // namespace

std::expected<ElfFile, std::string> ElfFile::open(std::span<const std::uint8_t> bytes) {
    elf_version(EV_CURRENT);
    // libelf does not write to it unless asked to update.
    Elf* elf = elf_memory(reinterpret_cast<char*>(const_cast<std::uint8_t*>(bytes.data())), bytes.size());
    if (elf == nullptr) return elf_failure("not an ELF file");
    if (elf_kind(elf) != ELF_K_ELF || gelf_getclass(elf) != ELFCLASS64) {
        elf_end(elf);
        return std::unexpected("not a 64-bit ELF file");
    }
    return ElfFile(elf);
}

std::expected<std::vector<std::uint8_t>, std::string> add_sections(std::span<const std::uint8_t> elf,
                                                                   std::span<const NewSection> sections) {
    auto source = ElfFile::open(elf);
    if (!source) return std::unexpected(source.error());
    MemoryFile out;
    Elf* target = out.fd() < 0 ? nullptr : elf_begin(out.fd(), ELF_C_WRITE, nullptr);
    if (target == nullptr) return elf_failure("cannot write an ELF file");
    Copier copier(source->get(), target);
    bool ok = copier.copy();
    for (const NewSection& section : sections) ok = ok && copier.add(section);
    ok = ok && copier.finish();
    std::string failure = ok ? "" : elf_errmsg(-1);
    elf_end(target);
    if (!ok) return std::unexpected("cannot write the artifact's ELF: " + failure);
    std::vector<std::uint8_t> made = out.bytes();
    if (made.empty())
        return std::unexpected(fmt::format("cannot read the artifact's ELF back: {}", std::strerror(errno)));
    return made;
}

std::span<const std::uint8_t> find_section(const ElfFile& file, const std::string& name) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(file.get(), &names) != 0) return {};
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(file.get(), section)) != nullptr;) {
        GElf_Shdr head;
        if (gelf_getshdr(section, &head) == nullptr) continue;
        const char* found = elf_strptr(file.get(), names, head.sh_name);
        if (found == nullptr || name != found) continue;
        Elf_Data* data = elf_rawdata(section, nullptr);
        if (data == nullptr || data->d_buf == nullptr) return {};
        return {static_cast<const std::uint8_t*>(data->d_buf), data->d_size};
    }
    return {};
}

}  // namespace chainio::backends
