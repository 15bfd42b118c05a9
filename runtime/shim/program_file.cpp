#include "runtime/shim/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>

#include "runtime/shim/child.h"
#include "runtime/shim/raw.h"

namespace chainio::shim {
namespace {

struct Head {
    alignas(Elf64_Phdr) char bytes[1024];
    std::size_t size;
};

// One whose headers lie further in than `Head` is not judged.
ProgramFile judge(const Head& head) {
    if (head.size < sizeof(Elf64_Ehdr) || std::memcmp(head.bytes, ELFMAG, SELFMAG) != 0) return ProgramFile::other;
    Elf64_Ehdr header;
    std::memcpy(&header, head.bytes, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return ProgramFile::other;
    const std::uint64_t end = header.e_phoff + std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
    if (header.e_phoff > sizeof head.bytes || end > head.size) return ProgramFile::other;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        std::memcpy(&segment, head.bytes + header.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_INTERP) return ProgramFile::other;
    }
    return ProgramFile::without_loader;
}

// In a child. Only a regular file is opened: to open a pipe lets go of who waits at its other end, and a device may do
// anything.
int look(void* path) {
    struct stat status;
    const bool is_file = !failed(raw_call(SYS_newfstatat, AT_FDCWD, word(path), word(&status), 0));
    if (!is_file || !S_ISREG(status.st_mode)) return static_cast<int>(ProgramFile::other);
    const long fd = raw_call(SYS_openat, AT_FDCWD, word(path), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (failed(fd)) return static_cast<int>(ProgramFile::other);
    Head head;
    const long got = raw_call(SYS_pread64, fd, word(head.bytes), sizeof head.bytes, 0);
    head.size = failed(got) ? 0 : static_cast<std::size_t>(got);
    return static_cast<int>(judge(head));
}

}  // namespace

// The child shares the caller's memory, for speed, and thus must not share its stack.
ProgramFile look_at_program(const char* path) {
    alignas(16) char stack[3 * 1024];
    return static_cast<ProgramFile>(ask_child(look, const_cast<char*>(path), stack + sizeof stack, CLONE_VM));
}

}  // namespace chainio::shim
