#include "tests/support/random_program/address.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace chainio::random_program {

void leave_if_taken() {
    constexpr int kPortTaken = 75;
    if (errno == EADDRINUSE) std::_Exit(kPortTaken);
}

std::uint16_t bound_port(int fd) {
    sockaddr_in address = {};
    socklen_t size = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

int listener(const Actor& a) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = local(a.alone && a.depth == 0 ? process.port : 0);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 64) != 0) {
        leave_if_taken();
        std::perror("listen");
        std::_Exit(1);
    }
    return fd;
}

int connect_to(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = local(port);
    // What waits in the accept queue is bounded; a connection that another program's leftovers delay is tried again by
    // TCP.
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::perror("connect");
    return fd;
}

}  // namespace chainio::random_program
