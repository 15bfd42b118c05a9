// Opens: a new descriptor is looked at once, here.
#include <fcntl.h>
#include <linux/openat2.h>

#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"

namespace chainio::shim {
namespace {

// The mode is passed on whether or not there is one: an argument that nobody reads.
template <class Call>
int open_seen(const char* path, std::uint64_t flags, Call call) {
    const int fd = call();
    return fd < 0 ? fd : opened(fd, path, flags);
}

std::uint64_t bits(int flags) { return static_cast<unsigned>(flags); }

// What libc's functions come to, but the fortified ones, which look at the flags. All share it, in cache lines of its
// own: each one that follows a system call comes from further away.
[[gnu::noinline, gnu::aligned(64)]] int open_straight(int folder, const char* path, int flags, mode_t mode) {
    const long fd = raw_call(SYS_openat, folder, word(path), flags, mode);
    if (failed(fd)) [[unlikely]]
        return static_cast<int>(with_errno(fd));
    return opened(static_cast<int>(fd), path, bits(flags));
}

constexpr int kCreates = O_CREAT | O_WRONLY | O_TRUNC;

}  // namespace

#define CHAINIO_OPEN(name)                                                                          \
    CHAINIO_CALL(int, name, const char* path, int flags, mode_t mode) {                             \
        if (goes_straight_alone()) return open_straight(AT_FDCWD, path, flags, mode);               \
        return open_seen(path, bits(flags), [=] { return CHAINIO_NEXT(name)(path, flags, mode); }); \
    }
#define CHAINIO_OPENAT(name)                                                                                \
    CHAINIO_CALL(int, name, int folder, const char* path, int flags, mode_t mode) {                         \
        if (goes_straight_alone()) return open_straight(folder, path, flags, mode);                         \
        return open_seen(path, bits(flags), [=] { return CHAINIO_NEXT(name)(folder, path, flags, mode); }); \
    }
#define CHAINIO_CREAT(name)                                                               \
    CHAINIO_CALL(int, name, const char* path, mode_t mode) {                              \
        if (goes_straight_alone()) return open_straight(AT_FDCWD, path, kCreates, mode);  \
        return open_seen(path, kCreates, [=] { return CHAINIO_NEXT(name)(path, mode); }); \
    }
#define CHAINIO_OPEN_2(name)                                                                  \
    CHAINIO_CALL(int, name, const char* path, int flags) {                                    \
        return open_seen(path, bits(flags), [=] { return CHAINIO_NEXT(name)(path, flags); }); \
    }
#define CHAINIO_OPENAT_2(name)                                                                        \
    CHAINIO_CALL(int, name, int folder, const char* path, int flags) {                                \
        return open_seen(path, bits(flags), [=] { return CHAINIO_NEXT(name)(folder, path, flags); }); \
    }

CHAINIO_OPEN(open)
CHAINIO_OPEN(open64)
CHAINIO_OPEN(__open)
CHAINIO_OPEN(__open64)
CHAINIO_OPEN_2(__open_2)
CHAINIO_OPEN_2(__open64_2)
CHAINIO_OPENAT(openat)
CHAINIO_OPENAT(openat64)
CHAINIO_OPENAT_2(__openat_2)
CHAINIO_OPENAT_2(__openat64_2)
CHAINIO_CREAT(creat)
CHAINIO_CREAT(creat64)

// glibc 2.36 has no such function; a newer libc's, or a library's own, is the next one.
CHAINIO_CALL(int, openat2, int folder, const char* path, open_how* how, std::size_t bytes) {
    const int fd = CHAINIO_NEXT(openat2)(folder, path, how, bytes);
    return fd < 0 ? fd : opened(fd, path, how->flags);  // that it can be read, the kernel has said
}

}  // namespace chainio::shim
