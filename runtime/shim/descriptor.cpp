// Descriptors that are closed, and those that become other numbers of the same opening.
#include <fcntl.h>
#include <linux/close_range.h>

#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {
namespace {

void closing_range(unsigned first, unsigned last) {
    const int highest = table.highest();
    for (long fd = first; fd <= highest && fd <= static_cast<long>(last); ++fd) closing(static_cast<int>(fd));
}

int copied(int from, int to) {
    if (to >= 0) duplicated(from, to);
    return to;
}

}  // namespace

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
    if (!(flags & CLOSE_RANGE_CLOEXEC)) closing_range(first, last);
    return CHAINIO_NEXT(close_range)(first, last, flags);
}
CHAINIO_CALL(void, closefrom, int first) {
    closing_range(first < 0 ? 0 : static_cast<unsigned>(first), ~0U);
    CHAINIO_NEXT(closefrom)(first);
}

CHAINIO_CALL(int, dup, int fd) { return copied(fd, CHAINIO_NEXT(dup)(fd)); }
CHAINIO_CALL(int, dup2, int from, int to) { return copied(from, CHAINIO_NEXT(dup2)(from, to)); }
CHAINIO_CALL(int, __dup2, int from, int to) { return copied(from, CHAINIO_NEXT(__dup2)(from, to)); }
CHAINIO_CALL(int, dup3, int from, int to, int flags) { return copied(from, CHAINIO_NEXT(dup3)(from, to, flags)); }

// The third argument is passed on whether or not there is one.
#define CHAINIO_FCNTL(name)                                                               \
    CHAINIO_CALL(int, name, int fd, int command, long argument) {                         \
        const int result = CHAINIO_NEXT(name)(fd, command, argument);                     \
        if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) copied(fd, result);         \
        if (command == F_SETFL && argument & O_DIRECT && result == 0) past_the_cache(fd); \
        return result;                                                                    \
    }
CHAINIO_FCNTL(fcntl)
CHAINIO_FCNTL(fcntl64)
CHAINIO_FCNTL(__fcntl)

}  // namespace chainio::shim
