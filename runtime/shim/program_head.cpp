#include "runtime/shim/program_head.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace chainio::shim {
namespace {

// One whose headers lie further in than `ProgramHead` is not judged.
template <class Header, class Segment>
ProgramFile judge_as(const ProgramHead& head, ProgramFile with_loader) {
    if (head.size < sizeof(Header)) return ProgramFile::other;
    Header header;
    std::memcpy(&header, head.bytes, sizeof header);
    const std::uint64_t first = header.e_phoff, end = first + std::uint64_t{header.e_phnum} * sizeof(Segment);
    if (header.e_phentsize != sizeof(Segment) || first > sizeof head.bytes || end > head.size)
        return ProgramFile::other;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Segment segment;
        std::memcpy(&segment, head.bytes + first + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_INTERP) return with_loader;
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
        case ELFCLASS32: return judge_as<Elf32_Ehdr, Elf32_Phdr>(head, ProgramFile::narrow);
        case ELFCLASS64:
            return is_foreign(head) ? ProgramFile::foreign : judge_as<Elf64_Ehdr, Elf64_Phdr>(head, ProgramFile::other);
        default: return ProgramFile::other;
    }
}

}  // namespace chainio::shim
