#include "runtime/probe/elf_view.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace chainio::probe {
namespace {

constexpr std::uint32_t kStapNote = 3;  // NT_STAPSDT
constexpr std::size_t kMostSegments = 4096, kMostVersions = 4096, kMostNeeded = 1024;

template <class T>
std::optional<T> load(std::span<const std::uint8_t> bytes, std::uint64_t offset) {
    if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

// The text at `offset`, which ends with a NUL inside the bytes; else empty.
std::string_view text_at(std::span<const std::uint8_t> bytes, std::uint64_t offset) {
    if (offset >= bytes.size()) return {};
    const auto* begin = reinterpret_cast<const char*>(bytes.data() + offset);
    const std::size_t length = strnlen(begin, bytes.size() - offset);
    return length == bytes.size() - offset ? std::string_view{} : std::string_view(begin, length);
}

constexpr std::uint64_t padded(std::uint64_t n) { return (n + 3) & ~std::uint64_t{3}; }

}  // namespace

std::expected<ElfView, std::string> ElfView::read(std::span<const std::uint8_t> file) {
    const auto head = load<Elf64_Ehdr>(file, 0);
    if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0)
        return std::unexpected("it is not an ELF file");
    if (!head || head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB)
        return std::unexpected("it is not a 64-bit little-endian ELF file");
    if (head->e_type != ET_EXEC && head->e_type != ET_DYN)
        return std::unexpected("it is neither a program nor a shared library");
    ElfView view(file);
    view.machine_ = head->e_machine;
    view.names_section_ = head->e_shstrndx;
    view.read_segments();
    view.read_sections();
    view.read_dynamic();
    return view;
}

std::span<const std::uint8_t> ElfView::part(std::uint64_t offset, std::uint64_t size) const {
    if (offset > file_.size() || size > file_.size() - offset) return {};
    return file_.subspan(offset, size);
}

void ElfView::read_segments() {
    const auto head = *load<Elf64_Ehdr>(file_, 0);
    const std::size_t count = std::min<std::size_t>(head.e_phnum, kMostSegments);
    if (head.e_phentsize != sizeof(Elf64_Phdr)) return;
    const auto table = part(head.e_phoff, count * sizeof(Elf64_Phdr));
    for (std::size_t i = 0; i < table.size() / sizeof(Elf64_Phdr); i++) {
        const auto row = *load<Elf64_Phdr>(table, i * sizeof(Elf64_Phdr));
        segments_.push_back({row.p_type, row.p_flags, row.p_offset, row.p_vaddr, row.p_filesz});
        if (row.p_type == PT_INTERP) interpreter_ = text_at(part(row.p_offset, row.p_filesz), 0);
    }
}

void ElfView::read_sections() {
    const auto head = *load<Elf64_Ehdr>(file_, 0);
    if (head.e_shentsize != sizeof(Elf64_Shdr)) return;
    const auto table = part(head.e_shoff, std::uint64_t{head.e_shnum} * sizeof(Elf64_Shdr));
    for (std::size_t i = 0; i < table.size() / sizeof(Elf64_Shdr); i++) {
        const auto row = *load<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr));
        sections_.push_back({row.sh_name, row.sh_type, row.sh_link, row.sh_info, row.sh_addr, row.sh_offset,
                             row.sh_size, row.sh_entsize});
    }
}

std::span<const std::uint8_t> ElfView::contents(const Section& section) const {
    return section.type == SHT_NOBITS ? std::span<const std::uint8_t>{} : part(section.offset, section.size);
}

std::string_view ElfView::section_name(const Section& section) const {
    if (names_section_ >= sections_.size()) return {};
    return text_at(contents(sections_[names_section_]), section.name);
}

const ElfView::Section* ElfView::find(std::uint32_t type) const {
    const auto found = std::ranges::find(sections_, type, &Section::type);
    return found == sections_.end() ? nullptr : &*found;
}

void ElfView::read_dynamic() {
    const auto segment = std::ranges::find(segments_, std::uint32_t{PT_DYNAMIC}, &Segment::type);
    if (segment == segments_.end()) return;
    const auto table = part(segment->offset, segment->file_size);
    std::uint64_t names_address = 0, names_size = 0;
    std::vector<std::uint64_t> needed;
    std::optional<std::uint64_t> runpath, rpath;
    for (std::size_t i = 0; i < table.size() / sizeof(Elf64_Dyn); i++) {
        const auto row = *load<Elf64_Dyn>(table, i * sizeof(Elf64_Dyn));
        if (row.d_tag == DT_NULL) break;
        if (row.d_tag == DT_STRTAB) names_address = row.d_un.d_ptr;
        if (row.d_tag == DT_STRSZ) names_size = row.d_un.d_val;
        if (row.d_tag == DT_NEEDED && needed.size() < kMostNeeded) needed.push_back(row.d_un.d_val);
        if (row.d_tag == DT_RUNPATH) runpath = row.d_un.d_val;
        if (row.d_tag == DT_RPATH) rpath = row.d_un.d_val;
    }
    const auto offset = offset_of(names_address, false);
    const auto names = offset ? part(*offset, names_size) : std::span<const std::uint8_t>{};
    for (std::uint64_t at : needed)
        if (const auto name = text_at(names, at); !name.empty()) needed_.push_back(name);
    if (runpath) runpath_ = text_at(names, *runpath);
    if (rpath) rpath_ = text_at(names, *rpath);
}

std::optional<std::uint64_t> ElfView::offset_of(std::uint64_t address, bool executable) const {
    for (const Segment& segment : segments_) {
        if (segment.type != PT_LOAD || (executable && (segment.flags & PF_X) == 0)) continue;
        if (address < segment.address || address - segment.address >= segment.file_size) continue;
        const std::uint64_t offset = segment.offset + (address - segment.address);
        if (offset < file_.size()) return offset;
    }
    return std::nullopt;
}

std::span<const std::uint8_t> ElfView::bytes_at(std::uint64_t offset, std::size_t most) const {
    if (offset >= file_.size()) return {};
    return file_.subspan(offset, std::min<std::size_t>(most, file_.size() - offset));
}

std::vector<UsdtNote> ElfView::notes() const {
    std::vector<UsdtNote> out;
    for (const Section& section : sections_)
        if (section.type == SHT_NOTE && section_name(section) == ".note.stapsdt") read_notes(contents(section), out);
    return out;
}

void ElfView::read_notes(std::span<const std::uint8_t> section, std::vector<UsdtNote>& out) const {
    std::uint64_t at = 0;
    while (const auto head = load<Elf64_Nhdr>(section, at)) {
        const std::uint64_t owner = at + sizeof(Elf64_Nhdr), text = owner + padded(head->n_namesz);
        if (text > section.size() || head->n_descsz > section.size() - text) return;
        at = text + padded(head->n_descsz);
        if (head->n_type != kStapNote || text_at(section.subspan(owner, head->n_namesz), 0) != "stapsdt") continue;
        const auto description = section.subspan(text, head->n_descsz);
        const auto address = load<std::uint64_t>(description, 0), base = load<std::uint64_t>(description, 8),
                   semaphore = load<std::uint64_t>(description, 16);
        if (!address || !base || !semaphore) continue;
        UsdtNote note{.address = *address, .base = *base, .semaphore = *semaphore};
        std::uint64_t word = 24;
        for (std::string_view* part : {&note.provider, &note.name, &note.arguments}) {
            *part = text_at(description, word);
            word += part->size() + 1;
        }
        if (!note.provider.empty() && !note.name.empty()) out.push_back(note);
    }
}

std::optional<std::uint64_t> ElfView::notes_base() const {
    for (const Section& section : sections_)
        if (section_name(section) == ".stapsdt.base") return section.address;
    return std::nullopt;
}

// Names of the versions that the file defines, by their number.
std::vector<std::string_view> ElfView::version_names() const {
    std::vector<std::string_view> names;
    const Section* section = find(SHT_GNU_verdef);
    if (section == nullptr || section->link >= sections_.size()) return names;
    const auto table = contents(*section), strings = contents(sections_[section->link]);
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < kMostVersions; i++) {
        const auto row = load<Elf64_Verdef>(table, at);
        if (!row) break;
        if (const auto first = load<Elf64_Verdaux>(table, at + row->vd_aux)) {
            const std::size_t number = row->vd_ndx & 0x7fff;
            if (names.size() <= number) names.resize(number + 1);
            names[number] = text_at(strings, first->vda_name);
        }
        if (row->vd_next == 0) break;
        at += row->vd_next;
    }
    return names;
}

void ElfView::read_symbols(const Section& table, std::vector<Symbol>& out) const {
    if (table.link >= sections_.size()) return;
    const auto symbols = contents(table), strings = contents(sections_[table.link]);
    std::span<const std::uint8_t> numbers;
    std::vector<std::string_view> names;
    if (const Section* versions = find(SHT_GNU_versym); versions != nullptr && table.type == SHT_DYNSYM) {
        numbers = contents(*versions);
        names = version_names();
    }
    for (std::size_t i = 0; i < symbols.size() / sizeof(Elf64_Sym); i++) {
        const auto row = *load<Elf64_Sym>(symbols, i * sizeof(Elf64_Sym));
        const auto type = ELF64_ST_TYPE(row.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || row.st_shndx == SHN_UNDEF) continue;
        Symbol symbol{.name = text_at(strings, row.st_name),
                      .address = row.st_value,
                      .size = row.st_size,
                      .resolver = type == STT_GNU_IFUNC};
        if (const auto number = load<std::uint16_t>(numbers, 2 * i)) {
            symbol.hidden = (*number & 0x8000) != 0;
            // 0 and 1 are "local" and "global", not versions.
            if (const std::size_t n = *number & 0x7fff; n > 1 && n < names.size()) symbol.version = names[n];
        }
        // The other table writes the version behind the name.
        if (const auto mark = symbol.name.find('@'); mark != symbol.name.npos) {
            symbol.hidden = !symbol.name.substr(mark).starts_with("@@");
            symbol.version = symbol.name.substr(std::min(symbol.name.size(), mark + (symbol.hidden ? 1 : 2)));
            symbol.name = symbol.name.substr(0, mark);
        }
        if (!symbol.name.empty()) out.push_back(symbol);
    }
}

std::vector<Symbol> ElfView::functions() const {
    std::vector<Symbol> out;
    for (const Section& section : sections_)
        if (section.type == SHT_DYNSYM || section.type == SHT_SYMTAB) read_symbols(section, out);
    return out;
}

std::vector<std::uint64_t> ElfView::labels() const {
    std::vector<std::uint64_t> out;
    for (const Section& section : sections_) {
        if (section.type != SHT_DYNSYM && section.type != SHT_SYMTAB) continue;
        const auto symbols = contents(section);
        for (std::size_t i = 0; i < symbols.size() / sizeof(Elf64_Sym); i++) {
            const auto row = *load<Elf64_Sym>(symbols, i * sizeof(Elf64_Sym));
            if (row.st_shndx != SHN_UNDEF && row.st_shndx < SHN_LORESERVE) out.push_back(row.st_value);
        }
    }
    return out;
}

Code ElfView::section(std::string_view name) const {
    for (const Section& section : sections_)
        if (section_name(section) == name) return {section.address, contents(section)};
    return {};
}

std::vector<Code> ElfView::code() const {
    std::vector<Code> out;
    for (const Segment& segment : segments_)
        if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0)
            out.push_back({segment.address, part(segment.offset, segment.file_size)});
    return out;
}

}  // namespace chainio::probe
