#include "runtime/shim/next.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <linux/close_range.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>

#include "runtime/shim/raw.h"
#include "runtime/shim/straight.h"

namespace chainio::shim {

constinit std::atomic<void*> next_functions[static_cast<unsigned>(Name::count)]{};
constinit std::atomic<bool> next_is_libc{false};

namespace {

// What stands in for a libc function that is not there. The arguments are those of the system call, in its order.
template <long kNumber>
long call(long a, long b, long c, long d, long e, long f) {
    return with_errno(raw_call(kNumber, a, b, c, d, e, f));
}
// Of functions that return minus the error.
template <long kNumber>
long raw(long a, long b, long c, long d, long e, long f) {
    return raw_call(kNumber, a, b, c, d, e, f);
}
long open_raw(long path, long flags, long mode) {
    return with_errno(raw_call(SYS_openat, AT_FDCWD, path, flags, mode));
}
long creat_raw(long path, long mode) { return open_raw(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
long preadv2_raw(long fd, long list, long count, long offset, long flags) {
    return with_errno(raw_call(SYS_preadv2, fd, list, count, offset, 0, flags));
}
long dup2_raw(long from, long to) {
    if (from == to) return with_errno(raw_call(SYS_fcntl, from, F_GETFD)) < 0 ? -1 : to;
    return with_errno(raw_call(SYS_dup3, from, to, 0));
}
long closefrom_raw(long first) { return with_errno(raw_call(SYS_close_range, first < 0 ? 0 : first, ~0U, 0)); }
long epoll_pwait2_raw(long epoll, long events, long count, long timeout, long mask) {
    constexpr long kMaskBytes = 8;
    return with_errno(raw_call(SYS_epoll_pwait2, epoll, events, count, timeout, mask, kMaskBytes));
}

struct Entry {
    const char* name;
    void* fallback;
};
const Entry entries[] = {
#define CHAINIO_RAW(name, fallback) {#name, reinterpret_cast<void*>(fallback)},
#define CHAINIO_LIBC(name) {#name, nullptr},
    CHAINIO_NAMES(CHAINIO_RAW, CHAINIO_LIBC)
#undef CHAINIO_RAW
#undef CHAINIO_LIBC
};

// Those that may be called straight.
constexpr Name kStraight[] = {Name::open,  Name::open64,  Name::__open, Name::__open64, Name::openat,  Name::openat64,
                              Name::creat, Name::creat64, Name::dup,    Name::fcntl,    Name::fcntl64, Name::__fcntl,
                              Name::bind,  Name::listen,  Name::accept, Name::accept4,  Name::connect, Name::__connect};

bool all_in_libc() {
    dl_find_object libc, found;
    if (_dl_find_object(reinterpret_cast<void*>(gnu_get_libc_version), &libc) != 0) return false;
    return std::ranges::all_of(kStraight, [&](Name name) {
        return _dl_find_object(next_function(name), &found) == 0 && found.dlfo_link_map == libc.dlfo_link_map;
    });
}

constinit thread_local bool resolving [[gnu::tls_model("initial-exec")]] = false;
constinit std::atomic<void*> found_dlsym{nullptr};

}  // namespace

void* real_dlsym() {
    void* found = found_dlsym.load(std::memory_order_relaxed);
    if (found) return found;
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
        found = dlvsym(RTLD_NEXT, "dlsym", version);
        if (found) break;
    }
    found_dlsym.store(found, std::memory_order_relaxed);
    return found;
}

// What a search that fails allocates may itself open and read: that is when the raw call answers for the moment.
void* resolve(Name name) {
    const Entry& entry = entries[static_cast<unsigned>(name)];
    if (resolving && entry.fallback) return entry.fallback;
    const int before = errno;
    resolving = true;
    auto* find = reinterpret_cast<void* (*)(void*, const char*)>(real_dlsym());
    void* found = find ? find(RTLD_NEXT, entry.name) : nullptr;
    resolving = false;
    errno = before;
    if (!found) found = entry.fallback;
    next_functions[static_cast<unsigned>(name)].store(found, std::memory_order_relaxed);
    return found;
}

void resolve_all() {
    bool missing = false;
    for (unsigned i = 0; i < static_cast<unsigned>(Name::count); ++i)
        missing |= resolve(static_cast<Name>(i)) == entries[i].fallback;
    if (missing) dlerror();  // a name that this libc does not have must not be the program's error
    next_is_libc.store(all_in_libc(), std::memory_order_relaxed);
}

}  // namespace chainio::shim
