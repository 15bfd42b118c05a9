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

#include "runtime/shim/behind.h"
#include "runtime/shim/may_lack.h"
#include "runtime/shim/raw.h"
#include "runtime/shim/straight.h"

CHAINIO_MAY_LACK(dlclose);
CHAINIO_MAY_LACK(dlerror);
CHAINIO_MAY_LACK(dlopen);
CHAINIO_MAY_LACK(dlvsym);

namespace chainio::shim {

constexpr char kSeveralThreads = 0;
constinit std::atomic<const char*> single_threaded{&kSeveralThreads};

constinit std::atomic<void*> next_functions[static_cast<unsigned>(Name::count)]{};
constinit std::atomic<bool> next_is_libc{false};

namespace {

// What stands in for a libc function that is not there. The arguments are those of the system call, in its order.
template <long kNumber>
long call(long a, long b, long c, long d, long e, long f) {
    return with_errno(raw_call(kNumber, a, b, c, d, e, f));
}
// Of functions that do more than a system call, and return the error, minus the error, or -1.
long lacking() { return ENOSYS; }
long lacking_minus() { return -ENOSYS; }
long lacking_errno() { return with_errno(-ENOSYS); }
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

// Which most programs have nowhere: a search in vain takes as long as thirty others, so that the first call looks. By
// then the function may be that of a library which the program closes again.
constexpr Name kRare[] = {Name::openat2,
                          Name::io_setup,
                          Name::umount,
                          Name::umount2,
                          Name::pidfd_spawn,
                          Name::pidfd_spawnp,
                          Name::io_uring_queue_init,
                          Name::io_uring_queue_init_params,
                          Name::io_uring_queue_init_mem,
                          Name::io_uring_setup,
                          Name::aio_read,
                          Name::aio_read64,
                          Name::lio_listio,
                          Name::lio_listio64};

// Whether the library that brings the function along may still come.
bool is_to_come(const void* fallback) {
    return fallback == reinterpret_cast<void*>(lacking_minus) || fallback == reinterpret_cast<void*>(lacking_errno);
}

constexpr bool is_rare(Name name) { return std::ranges::find(kRare, name) != std::end(kRare); }

// The addresses between the first and the last byte of the loaded file that has `inside`, and how many were loaded
// before it.
struct Extent {
    std::uint64_t inside, begin = 0, end = 0;
    unsigned before = 0;
    const char* name = nullptr;
    bool has(const void* place) const {
        const auto at = reinterpret_cast<std::uint64_t>(place);
        return at >= begin && at < end;
    }
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
    if (extent.inside < begin || extent.inside >= end) {
        ++extent.before;
        return 0;
    }
    extent.begin = begin;
    extent.end = end;
    extent.name = info->dlpi_name;
    return 1;
}

Extent extent_of(const void* place) {
    Extent found{reinterpret_cast<std::uint64_t>(place)};
    for_each_loaded(find_extent, &found);
    return found;
}

Extent extent_of_libc() { return extent_of(reinterpret_cast<const void*>(gnu_get_libc_version)); }

bool all_in_libc() {
    const Extent libc = extent_of_libc();
    return std::ranges::all_of(kStraight, [&](Name name) { return libc.has(next_function(name)); });
}

// Files that were loaded with the program. They stay, and are the first for good.
constinit std::atomic<unsigned> loaded_at_start{0};

void count_loaded() {
    Extent nowhere{0};
    for_each_loaded(find_extent, &nowhere);
    loaded_at_start.store(nowhere.before, std::memory_order_relaxed);
}

bool was_loaded_at_start(const Extent& file) {
    return file.end != 0 && file.before < loaded_at_start.load(std::memory_order_relaxed);
}

bool stays_loaded(const void* function) { return was_loaded_at_start(extent_of(function)); }

constinit std::atomic<bool> only_by_libc{false};  // go_straight_no_more()

constinit thread_local bool resolving [[gnu::tls_model("initial-exec")]] = false;
constinit std::atomic<void*> found_dlsym{nullptr};

// Whether the loader's functions were there when the program started.
bool has_loaders() { return dlvsym && dlopen && dlclose && dlerror; }

void forget_error() {
    if (has_loaders()) dlerror();
}

}  // namespace

// By its version, which a library's own one does not have.
void for_each_loaded(int (*look)(dl_phdr_info*, std::size_t, void*), void* argument) {
    static constinit std::atomic<decltype(&dl_iterate_phdr)> libcs{nullptr};
    auto* each = libcs.load(std::memory_order_relaxed);
    if (!each && has_loaders()) {
        each =
            reinterpret_cast<decltype(&dl_iterate_phdr)>(dlvsym(RTLD_NEXT, "dl_iterate_phdr", CHAINIO_FIRST_VERSION));
        libcs.store(each, std::memory_order_relaxed);
    }
    (each ? each : dl_iterate_phdr)(look, argument);
}

// A library that came later may bring one along, and go again.
void* real_dlsym() {
    if (!has_loaders()) return find_behind(entries, "dlsym");
    void* found = found_dlsym.load(std::memory_order_relaxed);
    if (found) return found;
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
        found = dlvsym(RTLD_NEXT, "dlsym", version);
        if (found) break;
    }
    found_dlsym.store(found, std::memory_order_relaxed);
    return found;
}

static void* look_for_next(const char* name) {
    if (!has_loaders()) return find_behind(entries, name);
    auto* find = reinterpret_cast<void* (*)(void*, const char*)>(real_dlsym());
    void* found = find ? find(RTLD_NEXT, name) : nullptr;
    if (!found) dlerror();  // a name that this libc does not have must not be the program's error
    return found;
}

// What a search that fails allocates may itself open and read: that is when the raw call answers for the moment.
void* resolve(Name name) {
    const Entry& entry = entries[static_cast<unsigned>(name)];
    if (resolving && entry.fallback) return entry.fallback;
    const int before = errno;
    resolving = true;
    void* found = look_for_next(entry.name);
    resolving = false;
    errno = before;
    if (!found) found = entry.fallback;
    const bool stays = found == entry.fallback ? !is_to_come(found) : stays_loaded(found);
    if (!is_rare(name) || stays) next_functions[static_cast<unsigned>(name)].store(found, std::memory_order_relaxed);
    return found;
}

const char* file_of(const void* place) { return extent_of(place).name; }

// What a library that `caller` lies in has by that name, or one that it is linked to.
static void* find_for_library(const char* name, const void* caller) {
    const char* path = has_loaders() ? file_of(caller) : nullptr;
    void* library = path && path[0] ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    if (!library) return nullptr;
    auto* find = reinterpret_cast<void* (*)(void*, const char*)>(real_dlsym());
    void* found = find ? find(library, name) : nullptr;
    dlclose(library);
    return found;
}

void* next_function_for(Name name, const void* caller) {
    void* next = next_function(name);
    const Entry& entry = entries[static_cast<unsigned>(name)];
    if (next != entry.fallback) return next;
    const int before = errno;
    void* found = find_for_library(entry.name, caller);
    if (!found) forget_error();
    errno = before;
    return found ? found : next;
}

bool would_find_next(const void* caller, const void* function) {
    if (loaded_at_start.load(std::memory_order_relaxed) == 0) return false;
    const Extent libc = extent_of_libc(), of_caller = extent_of(caller);
    const auto interposes = [&](const auto& next) { return of_caller.has(next.load(std::memory_order_relaxed)); };
    return libc.has(function) && was_loaded_at_start(of_caller) && of_caller.before < libc.before &&
           std::ranges::none_of(next_functions, interposes);
}

// A search that fails allocates, as in resolve(), and takes what dlerror() would tell the program.
static bool libc_tells_of_threads() {
    unsigned numbers[] = {0, 0}, at = 0;  // "2.31"
    for (const char* text = gnu_get_libc_version(); *text && at < std::size(numbers); ++text) {
        const bool digit = *text >= '0' && *text <= '9';
        if (digit) numbers[at] = numbers[at] * 10 + static_cast<unsigned>(*text - '0');
        at += digit ? 0 : 1;
    }
    return numbers[0] > 2 || (numbers[0] == 2 && numbers[1] >= 32);
}

// The program's own one where it has a copy. An early call may have come before the constructor.
void learn_of_threads() {
    static constinit std::atomic<bool> looked_for{false};
    if (resolving || looked_for.exchange(true) || !has_loaders() || !libc_tells_of_threads()) return;
    const int before = errno;
    resolving = true;
    auto* find = reinterpret_cast<void* (*)(void*, const char*)>(real_dlsym());
    const void* found = find ? find(RTLD_DEFAULT, "__libc_single_threaded") : nullptr;
    if (found) {
        single_threaded.store(static_cast<const char*>(found), std::memory_order_relaxed);
    } else {
        dlerror();
    }
    resolving = false;
    errno = before;
}

void resolve_all() {
    for (unsigned i = 0; i < static_cast<unsigned>(Name::count); ++i) {
        const auto name = static_cast<Name>(i);
        if (!is_rare(name)) resolve(name);
    }
    count_loaded();
    learn_of_threads();
    next_is_libc.store(all_in_libc() && !only_by_libc.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void go_straight_no_more() {
    only_by_libc.store(true, std::memory_order_relaxed);
    next_is_libc.store(false, std::memory_order_relaxed);
}

}  // namespace chainio::shim
