#include "runtime/shim/program_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>

#include "runtime/shim/child.h"
#include "runtime/shim/descriptor_link.h"
#include "runtime/shim/program_head.h"
#include "runtime/shim/raw.h"
#include "runtime/shim/reach.h"

namespace chainio::shim {
namespace {

// One that only names its file (O_PATH) is opened to be read. Where there is no /proc it says nothing of the file.
long reading(int descriptor) {
    const long flags = raw_call(SYS_fcntl, descriptor, F_GETFL);
    if (failed(flags) || !(flags & O_PATH)) return descriptor;
    DescriptorLink link(descriptor);
    return raw_call(SYS_openat, AT_FDCWD, word(link.text), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

// Only a regular file is opened: to open a pipe lets go of who waits at its other end, and a device may do anything.
long open_file(const Place& place) {
    struct stat status;
    const bool is_there =
        !failed(raw_call(SYS_newfstatat, place.folder, word(place.path), word(&status), place.flags & AT_EMPTY_PATH));
    if (!is_there || !S_ISREG(status.st_mode)) return -1;
    if (place.is_descriptor()) return reading(place.folder);
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    return raw_call(SYS_openat, place.folder, word(place.path), kFlags);
}

#if defined(__x86_64__)
constexpr char kLoader[] = "/lib64/ld-linux-x86-64.so.2", kNarrowLoader[] = "/lib/ld-linux.so.2";
#else
constexpr char kLoader[] = "/lib/ld-linux-aarch64.so.1", kNarrowLoader[] = "/lib/ld-linux-armhf.so.3";
#endif

bool is_same(long file, const char* path) {
    struct stat status, there;
    return !failed(raw_call(SYS_fstat, file, word(&status))) &&
           !failed(raw_call(SYS_newfstatat, AT_FDCWD, word(path), word(&there), 0)) && status.st_dev == there.st_dev &&
           status.st_ino == there.st_ino;
}

// glibc's loaders have no loader either. Executed by name, with a program behind them, they preload as for the kernel.
ProgramFile judge_loader(long file) {
    if (is_same(file, kLoader)) return ProgramFile::other;
    return is_same(file, kNarrowLoader) ? ProgramFile::narrow : ProgramFile::without_loader;
}

ProgramFile judge(const Place& place) {
    const long fd = open_file(place);
    if (failed(fd)) return ProgramFile::none;
    ProgramHead head;
    const long got = raw_call(SYS_pread64, fd, word(head.bytes), sizeof head.bytes, 0);
    head.size = failed(got) ? 0 : static_cast<std::size_t>(got);
    const ProgramFile said = judge(head);
    return said == ProgramFile::without_loader ? judge_loader(fd) : said;
}

// Only to open it tells: Landlock, for one, lets a process ask after what it may not open. That it is not there says
// nothing, since a library may have told another name (fakechroot).
bool is_refused(const char* file) {
    return file && raw_call(SYS_openat, AT_FDCWD, word(file), O_RDONLY | O_CLOEXEC) == -EACCES;
}

constexpr int kRefused = 16;  // beside the kind of file

// In a child, whose descriptors nobody comes upon.
int look(void* place) {
    const int file = static_cast<int>(judge(*static_cast<const Place*>(place)));
    return file | (is_refused(loaded_file()) ? kRefused : 0);
}

}  // namespace

bool Place::is_descriptor() const { return (flags & AT_EMPTY_PATH) != 0 && path[0] == 0; }

// The child shares the caller's memory, for speed, and thus must not share its stack.
LookedAt look_at_program(const Place& place) {
    alignas(16) char stack[2 * 1024];  // of which it takes some 1,300 bytes
    Place looked_at = place;
    const int answer = ask_child(look, &looked_at, stack + sizeof stack, CLONE_VM);
    if (answer < 0) return {ProgramFile::unknown, false};
    return {static_cast<ProgramFile>(answer & ~kRefused), (answer & kRefused) != 0};
}

}  // namespace chainio::shim
