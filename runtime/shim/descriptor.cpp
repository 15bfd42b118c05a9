// Descriptors that are closed, and those that become other numbers of the same opening.
#include <fcntl.h>
#include <linux/close_range.h>

#include "runtime/shim/lease.h"
#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"

namespace chainio::shim {
namespace {

bool watches_any(unsigned first, unsigned last) {
    for (long fd = first; fd <= table.highest() && fd <= long{last}; ++fd)
        if (table.watched(static_cast<int>(fd))) return true;
    return false;
}

void closing_all(unsigned first, unsigned last) {
    for (long fd = first; fd <= table.highest() && fd <= long{last}; ++fd) closing(static_cast<int>(fd));
}

// Whether the kernel would close what it is told to by these flags: it refuses those that it does not know, and a
// filter may refuse the call. No descriptor has the number that is asked for.
bool would_close(int flags) {
    constexpr long kNobodys = 0xffff'ffff;
    return raw_call(SYS_close_range, kNobodys, kNobodys, flags & ~CLOSE_RANGE_UNSHARE) == 0;
}

int copied(int from, int to) {
    if (to >= 0) duplicated(from, to);
    return to;
}

int with_flags_set(int fd, long flags, int result) {
    if (result == 0) flags_set(fd, static_cast<std::uint64_t>(flags));
    return result;
}

// A copy whose number is known before concerns us when either is watched.
bool copy_concerns_us(int from, int to) { return table.watched(from) || table.watched(to); }

}  // namespace

void closing_range(unsigned first, unsigned last, int flags) {
    if (first > last || flags & CLOSE_RANGE_CLOEXEC) return;
    if (watches_any(first, last) && would_close(flags)) closing_all(first, last);
}

// Before the call, since the number may belong to somebody else right after it.
CHAINIO_CALL(int, close, int fd) {
    if (table.watched(fd)) [[unlikely]]
        closing(fd);
    return CHAINIO_NEXT(close)(fd);
}
CHAINIO_CALL(int, __close, int fd) {
    if (table.watched(fd)) [[unlikely]]
        closing(fd);
    return CHAINIO_NEXT(__close)(fd);
}
CHAINIO_CALL(int, close_range, unsigned first, unsigned last, int flags) {
    closing_range(first, last, flags);
    return CHAINIO_NEXT(close_range)(first, last, flags);
}
CHAINIO_CALL(void, closefrom, int first) {
    closing_all(first < 0 ? 0 : static_cast<unsigned>(first), ~0U);
    CHAINIO_NEXT(closefrom)(first);
}

CHAINIO_CALL(int, dup, int fd) { return copied(fd, goes_straight() ? straight(SYS_dup, fd) : CHAINIO_NEXT(dup)(fd)); }

#define CHAINIO_DUP2(name, ...)                                                       \
    CHAINIO_CALL(int, name, int from, int to __VA_OPT__(, int) __VA_ARGS__) {         \
        if (!copy_concerns_us(from, to)) [[likely]]                                   \
            return CHAINIO_NEXT(name)(from, to __VA_OPT__(, ) __VA_ARGS__);           \
        return copied(from, CHAINIO_NEXT(name)(from, to __VA_OPT__(, ) __VA_ARGS__)); \
    }
CHAINIO_DUP2(dup2)
CHAINIO_DUP2(__dup2)
CHAINIO_DUP2(dup3, flags)

// The third argument is passed on whether or not there is one.
#define CHAINIO_FCNTL(name)                                                                                     \
    CHAINIO_CALL(int, name, int fd, int command, long argument) {                                               \
        if (command == F_SETFL) return with_flags_set(fd, argument, CHAINIO_NEXT(name)(fd, command, argument)); \
        if (command == F_SETLK || command == F_SETLKW) own_descriptors_only();                                  \
        if (command == F_SETLEASE) [[unlikely]]                                                                 \
            return leased(fd, argument, [=] { return CHAINIO_NEXT(name)(fd, command, argument); });             \
        if (command != F_DUPFD && command != F_DUPFD_CLOEXEC) return CHAINIO_NEXT(name)(fd, command, argument); \
        return copied(fd, goes_straight() ? straight(SYS_fcntl, fd, command, argument)                          \
                                          : CHAINIO_NEXT(name)(fd, command, argument));                         \
    }
CHAINIO_FCNTL(fcntl)
CHAINIO_FCNTL(fcntl64)
CHAINIO_FCNTL(__fcntl)

// libc's own fcntl behind it is not ours.
CHAINIO_CALL(int, lockf, int fd, int command, off_t bytes) {
    own_descriptors_only();
    return CHAINIO_NEXT(lockf)(fd, command, bytes);
}
CHAINIO_CALL(int, lockf64, int fd, int command, off_t bytes) {
    own_descriptors_only();
    return CHAINIO_NEXT(lockf64)(fd, command, bytes);
}

}  // namespace chainio::shim
