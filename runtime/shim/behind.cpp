#include "runtime/shim/behind.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace chainio::shim {
namespace {

struct Symbols {
    const ElfW(Sym) * symbols = nullptr;
    const char* names = nullptr;
    const std::uint32_t* table = nullptr;     // DT_GNU_HASH
    const ElfW(Versym) * versions = nullptr;  // null: there are none
};

bool lies_in(const dl_phdr_info& file, std::uint64_t place) {
    for (unsigned i = 0; i < file.dlpi_phnum; ++i) {
        const auto& segment = file.dlpi_phdr[i];
        const std::uint64_t begin = file.dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && place >= begin && place - begin < segment.p_memsz) return true;
    }
    return false;
}

// The loader makes addresses of what a file says, but for the kernel's own one (the vDSO).
template <class T>
const T* at(const dl_phdr_info& file, std::uint64_t place) {
    return reinterpret_cast<const T*>(place < file.dlpi_addr ? place + file.dlpi_addr : place);
}

const ElfW(Dyn) * dynamic_of(const dl_phdr_info& file) {
    for (unsigned i = 0; i < file.dlpi_phnum; ++i)
        if (file.dlpi_phdr[i].p_type == PT_DYNAMIC)
            return reinterpret_cast<const ElfW(Dyn)*>(file.dlpi_addr + file.dlpi_phdr[i].p_vaddr);
    return nullptr;
}

Symbols symbols_of(const dl_phdr_info& file) {
    Symbols found;
    for (const ElfW(Dyn)* each = dynamic_of(file); each && each->d_tag != DT_NULL; ++each) {
        const std::uint64_t place = each->d_un.d_ptr;
        switch (each->d_tag) {
            case DT_SYMTAB: found.symbols = at<ElfW(Sym)>(file, place); break;
            case DT_STRTAB: found.names = at<char>(file, place); break;
            case DT_GNU_HASH: found.table = at<std::uint32_t>(file, place); break;
            case DT_VERSYM: found.versions = at<ElfW(Versym)>(file, place); break;
            default: break;
        }
    }
    return found;
}

bool is_default(const Symbols& in, std::uint32_t symbol) {
    constexpr unsigned kHidden = 0x8000;  // an older version, which only who names it gets
    return !in.versions || (in.versions[symbol] & kHidden) == 0;
}

bool is_function(const ElfW(Sym) & symbol) {
    const auto bind = ELF64_ST_BIND(symbol.st_info);
    return symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
           (bind == STB_GLOBAL || bind == STB_WEAK);
}

std::uint32_t gnu_hash(const char* name) {
    std::uint32_t hash = 5381;
    for (; *name; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
    return hash;
}

// The table's chains, in which the last one of each has the lowest bit set.
const ElfW(Sym) * find_in(const Symbols& in, const char* name) {
    if (!in.symbols || !in.names || !in.table || in.table[0] == 0) return nullptr;
    constexpr std::uint32_t kHead = 4, kWords = sizeof(ElfW(Addr)) / sizeof(std::uint32_t);
    const std::uint32_t count = in.table[0], first = in.table[1];
    const std::uint32_t* heads = in.table + kHead + std::size_t{in.table[2]} * kWords;
    const std::uint32_t* chains = heads + count;
    const std::uint32_t hash = gnu_hash(name);
    const std::uint32_t begin = heads[hash % count];
    if (begin == 0 || begin < first) return nullptr;
    for (std::uint32_t i = begin;; ++i) {
        const std::uint32_t its = chains[i - first];
        if ((its | 1) == (hash | 1) && is_default(in, i) && is_function(in.symbols[i]) &&
            std::strcmp(in.names + in.symbols[i].st_name, name) == 0)
            return in.symbols + i;
        if (its & 1) return nullptr;
    }
}

struct Search {
    std::uint64_t place;
    const char* name;
    bool is_behind = false;
    void* found = nullptr;
};

int look_in(dl_phdr_info* file, std::size_t, void* argument) {
    Search& search = *static_cast<Search*>(argument);
    if (!search.is_behind) {
        search.is_behind = lies_in(*file, search.place);
        return 0;
    }
    const ElfW(Sym)* symbol = find_in(symbols_of(*file), search.name);
    if (symbol) search.found = reinterpret_cast<void*>(file->dlpi_addr + symbol->st_value);
    return symbol ? 1 : 0;
}

}  // namespace

void* find_behind(const void* place, const char* name) {
    Search search{reinterpret_cast<std::uint64_t>(place), name};
    dl_iterate_phdr(look_in, &search);
    return search.found;
}

}  // namespace chainio::shim
