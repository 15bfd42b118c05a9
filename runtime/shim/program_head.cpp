#include "runtime/shim/program_head.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace chainio::shim {
namespace {

#if defined(__x86_64__)
constexpr char kLoaderEnd[] = "/ld-linux-x86-64.so.2";
#else
constexpr char kLoaderEnd[] = "/ld-linux-aarch64.so.1";
#endif

// By the last part of its name, as where the run begins: glibc's may lie in any folder.
bool is_of_glibc(const char* name, std::size_t length) {
    constexpr std::size_t kLength = sizeof kLoaderEnd - 1;
    return length >= kLength && std::memcmp(name + length - kLength, kLoaderEnd, kLength) == 0;
}

// One whose name lies further in than `ProgramHead`, as behind an unusual linker, is not judged.
ProgramFile judge_loader(const ProgramHead& head, std::uint64_t offset, std::uint64_t size) {
    if (offset > head.size || size > head.size - offset) return ProgramFile::other;
    const char* name = head.bytes + offset;
    return is_of_glibc(name, strnlen(name, size)) ? ProgramFile::other : ProgramFile::other_library;
}

// One whose headers lie further in than `ProgramHead` is not judged.
template <class Header, class Segment>
ProgramFile judge_as(const ProgramHead& head) {
    if (head.size < sizeof(Header)) return ProgramFile::other;
    Header header;
    std::memcpy(&header, head.bytes, sizeof header);
    const std::uint64_t first = header.e_phoff, end = first + std::uint64_t{header.e_phnum} * sizeof(Segment);
    if (header.e_phentsize != sizeof(Segment) || first > sizeof head.bytes || end > head.size)
        return ProgramFile::other;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Segment segment;
        std::memcpy(&segment, head.bytes + first + i * sizeof segment, sizeof segment);
        if (segment.p_type != PT_INTERP) continue;
        if constexpr (sizeof(Header) == sizeof(Elf32_Ehdr)) return ProgramFile::narrow;
        return judge_loader(head, segment.p_offset, segment.p_filesz);
    }
    return ProgramFile::without_loader;
}

bool is_foreign(const ProgramHead& head) {
#if defined(__x86_64__)
    constexpr Elf64_Half kOwn = EM_X86_64;
#else
    constexpr Elf64_Half kOwn = EM_AARCH64;
#endif
    Elf64_Half machine = EM_NONE;
    std::memcpy(&machine, head.bytes + offsetof(Elf64_Ehdr, e_machine), sizeof machine);
    return head.bytes[EI_DATA] != ELFDATA2LSB || machine != kOwn;
}

}  // namespace

ProgramFile judge(const ProgramHead& head) {
    if (head.size < sizeof(Elf32_Ehdr) || std::memcmp(head.bytes, ELFMAG, SELFMAG) != 0) return ProgramFile::other;
    switch (head.bytes[EI_CLASS]) {
        case ELFCLASS32: return judge_as<Elf32_Ehdr, Elf32_Phdr>(head);
        case ELFCLASS64: return is_foreign(head) ? ProgramFile::foreign : judge_as<Elf64_Ehdr, Elf64_Phdr>(head);
        default: return ProgramFile::other;
    }
}

}  // namespace chainio::shim
