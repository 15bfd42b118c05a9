// Sockets: which ports they have, and what is received by programs that never ask whether there is something to
// receive.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"
#include "runtime/shim/vectors.h"

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

void message_received(int fd, const iovec& first, std::size_t bytes, int flags) {
    Slot* slot = table.watched(fd);
    if (slot && slot->kind() == Kind::socket)
        post_ready(*slot, shown(first.iov_base, flags), bytes < first.iov_len ? bytes : first.iov_len);
}

bool is_told_of(const Slot& slot, int flags) {
    return slot.kind() == Kind::socket && !(flags & kTakesNothing) && wants(slot, kPostReady);
}

// Of matched descriptors, apart from the look-up that every call pays for, and in the order in which the registers are.
using Receive = ssize_t (*)(int, msghdr*, int);
[[gnu::noinline]] ssize_t message_seen(int fd, msghdr* message, int flags, const Slot& slot, Receive next) {
    const iovec first = is_told_of(slot, flags) ? Vectors().first_of(message) : iovec{};
    const ssize_t got = next(fd, message, flags);
    if (got > 0 && !(flags & kTakesNothing)) message_received(fd, first, static_cast<std::size_t>(got), flags);
    return got;
}

constexpr unsigned kMostMessages = 64;  // of those behind these nobody is told
using ReceiveMany = int (*)(int, mmsghdr*, unsigned, int, timespec*);
[[gnu::noinline]] int messages_seen(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout,
                                    const Slot& slot, ReceiveMany next) {
    iovec firsts[kMostMessages];
    firsts[0] = {};  // that something was received is to be known in any case
    unsigned known = 0;
    if (is_told_of(slot, flags))
        for (Vectors vectors; known < count && known < kMostMessages; ++known)
            firsts[known] = vectors.first_of(&messages[known].msg_hdr);
    const int got = next(fd, messages, count, flags, timeout);
    if (got <= 0 || flags & kTakesNothing) return got;
    const unsigned received = std::min(static_cast<unsigned>(got), std::max(known, 1U));
    for (unsigned i = 0; i < received; ++i) message_received(fd, firsts[i], messages[i].msg_len, flags);
    return got;
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
    const Slot* slot = table.watched(fd);
    if (!slot) [[likely]]
        return CHAINIO_NEXT(recvmsg)(fd, message, flags);
    return message_seen(fd, message, flags, *slot, reinterpret_cast<Receive>(next_function(Name::recvmsg)));
}
CHAINIO_CALL(int, recvmmsg, int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
    const Slot* slot = table.watched(fd);
    if (!slot) [[likely]]
        return CHAINIO_NEXT(recvmmsg)(fd, messages, count, flags, timeout);
    const auto next = reinterpret_cast<ReceiveMany>(next_function(Name::recvmmsg));
    return messages_seen(fd, messages, count, flags, timeout, *slot, next);
}

}  // namespace chainio::shim
