#include "runtime/shim/next.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <linux/close_range.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <iterator>

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
long unlink_raw(long path) { return with_errno(raw_call(SYS_unlinkat, AT_FDCWD, path, 0)); }
long rename_raw(long from, long to) { return with_errno(raw_call(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to)); }
long preadv2_raw(long fd, long list, long count, long offset, long flags) {
    return with_errno(raw_call(SYS_preadv2, fd, list, count, offset, 0, flags));
}
long fadvise_raw(long fd, long offset, long length, long advice) {
    return -raw_call(SYS_fadvise64, fd, offset, length, advice);
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
constexpr Name kStraight[] = {Name::open,       Name::open64,  Name::__open,    Name::__open64, Name::openat,
                              Name::openat64,   Name::creat,   Name::creat64,   Name::dup,      Name::fcntl,
                              Name::fcntl64,    Name::__fcntl, Name::bind,      Name::listen,   Name::accept,
                              Name::accept4,    Name::connect, Name::__connect, Name::poll,     Name::__poll,
                              Name::epoll_wait, Name::unlink,  Name::unlinkat,  Name::rename,   Name::renameat};

// Which most programs have nowhere: a search in vain takes as long as thirty others, so that the first call looks.
constexpr Name kRare[] = {Name::openat2, Name::io_setup, Name::umount, Name::umount2};

// The addresses between the first and the last byte of the loaded file that has `inside`.
struct Extent {
    std::uint64_t inside, begin = 0, end = 0;
};

int find_extent(dl_phdr_info* info, std::size_t, void* out) {
    Extent& extent = *static_cast<Extent*>(out);
    std::uint64_t begin = UINT64_MAX, end = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD) continue;
        begin = std::min(begin, info->dlpi_addr + segment.p_vaddr);
        end = std::max(end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
    }
    if (extent.inside < begin || extent.inside >= end) return 0;
    extent.begin = begin;
    extent.end = end;
    return 1;
}

bool all_in_libc() {
    Extent libc{reinterpret_cast<std::uint64_t>(gnu_get_libc_version)};
    dl_iterate_phdr(find_extent, &libc);
    return std::ranges::all_of(kStraight, [&](Name name) {
        const auto next = reinterpret_cast<std::uint64_t>(next_function(name));
        return next >= libc.begin && next < libc.end;
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
    if (!found) dlerror();  // a name that this libc does not have must not be the program's error
    resolving = false;
    errno = before;
    if (!found) found = entry.fallback;
    next_functions[static_cast<unsigned>(name)].store(found, std::memory_order_relaxed);
    return found;
}

void resolve_all() {
    for (unsigned i = 0; i < static_cast<unsigned>(Name::count); ++i) {
        const auto name = static_cast<Name>(i);
        if (std::ranges::find(kRare, name) == std::end(kRare)) resolve(name);
    }
    next_is_libc.store(all_in_libc(), std::memory_order_relaxed);
}

}  // namespace chainio::shim
