// Sockets: which ports they have, and what is received by programs that never ask whether there is something to
// receive.
#include <sys/socket.h>

#include <cerrno>

#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"

namespace chainio::shim {
namespace {

int after_connect(int result, int fd, const void* address, unsigned bytes) {
    if (result == 0 || errno == EINPROGRESS) connected(fd, address, bytes);
    return result;
}

template <class Call>
ssize_t received(int fd, const void* buffer, int flags, Call call) {
    Slot* slot = table.watched(fd);
    if (!slot || flags & kTakesNothing || !concerns_us(*slot)) [[likely]]
        return call();
    return read_seen(*slot, fd, kAtPosition, shown(buffer, flags), 0, call);
}

void message_received(Slot& slot, const msghdr& message, std::size_t bytes, int flags) {
    if (!message.msg_iov || message.msg_iovlen == 0) return;
    const iovec& first = message.msg_iov[0];
    post_ready(slot, shown(first.iov_base, flags), bytes < first.iov_len ? bytes : first.iov_len);
}

}  // namespace

CHAINIO_CALL(int, bind, int fd, const sockaddr* address, socklen_t bytes) {
    const int result =
        goes_straight() ? straight(SYS_bind, fd, word(address), bytes) : CHAINIO_NEXT(bind)(fd, address, bytes);
    if (result == 0 && address && (address->sa_family == AF_INET || address->sa_family == AF_INET6))
        listening(fd, "bind", address, bytes);
    return result;
}
CHAINIO_CALL(int, listen, int fd, int backlog) {
    const int result = goes_straight() ? straight(SYS_listen, fd, backlog) : CHAINIO_NEXT(listen)(fd, backlog);
    if (result == 0) listening(fd, "listen");
    return result;
}
CHAINIO_CALL(int, accept, int fd, sockaddr* address, socklen_t* bytes) {
    const int result = goes_straight_alone() ? straight(SYS_accept, fd, word(address), word(bytes))
                                             : CHAINIO_NEXT(accept)(fd, address, bytes);
    if (result >= 0) accepted(fd, result);
    return result;
}
CHAINIO_CALL(int, accept4, int fd, sockaddr* address, socklen_t* bytes, int flags) {
    const int result = goes_straight_alone() ? straight(SYS_accept4, fd, word(address), word(bytes), flags)
                                             : CHAINIO_NEXT(accept4)(fd, address, bytes, flags);
    if (result >= 0) accepted(fd, result);
    return result;
}
#define CHAINIO_CONNECT(name)                                                                      \
    CHAINIO_CALL(int, name, int fd, const sockaddr* address, socklen_t bytes) {                    \
        const int result = goes_straight_alone() ? straight(SYS_connect, fd, word(address), bytes) \
                                                 : CHAINIO_NEXT(name)(fd, address, bytes);         \
        return after_connect(result, fd, address, bytes);                                          \
    }
CHAINIO_CONNECT(connect)
CHAINIO_CONNECT(__connect)

CHAINIO_CALL(ssize_t, recv, int fd, void* buffer, std::size_t size, int flags) {
    return received(fd, buffer, flags, [=] { return CHAINIO_NEXT(recv)(fd, buffer, size, flags); });
}
CHAINIO_CALL(ssize_t, __recv_chk, int fd, void* buffer, std::size_t size, std::size_t room, int flags) {
    return received(fd, buffer, flags, [=] { return CHAINIO_NEXT(__recv_chk)(fd, buffer, size, room, flags); });
}
CHAINIO_CALL(ssize_t, recvfrom, int fd, void* buffer, std::size_t size, int flags, sockaddr* from, socklen_t* bytes) {
    return received(fd, buffer, flags, [=] { return CHAINIO_NEXT(recvfrom)(fd, buffer, size, flags, from, bytes); });
}
CHAINIO_CALL(ssize_t, __recvfrom_chk, int fd, void* buffer, std::size_t size, std::size_t room, int flags,
             sockaddr* from, socklen_t* bytes) {
    return received(fd, buffer, flags,
                    [=] { return CHAINIO_NEXT(__recvfrom_chk)(fd, buffer, size, room, flags, from, bytes); });
}
CHAINIO_CALL(ssize_t, recvmsg, int fd, msghdr* message, int flags) {
    if (!table.watched(fd)) [[likely]]
        return CHAINIO_NEXT(recvmsg)(fd, message, flags);
    const ssize_t got = CHAINIO_NEXT(recvmsg)(fd, message, flags);
    Slot* slot = got > 0 && !(flags & kTakesNothing) ? table.watched(fd) : nullptr;
    if (slot && slot->kind() == Kind::socket) message_received(*slot, *message, static_cast<std::size_t>(got), flags);
    return got;
}
CHAINIO_CALL(int, recvmmsg, int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
    if (!table.watched(fd)) [[likely]]
        return CHAINIO_NEXT(recvmmsg)(fd, messages, count, flags, timeout);
    const int got = CHAINIO_NEXT(recvmmsg)(fd, messages, count, flags, timeout);
    Slot* slot = got > 0 && !(flags & kTakesNothing) ? table.watched(fd) : nullptr;
    if (slot && slot->kind() == Kind::socket)
        for (int i = 0; i < got; ++i) message_received(*slot, messages[i].msg_hdr, messages[i].msg_len, flags);
    return got;
}

}  // namespace chainio::shim
