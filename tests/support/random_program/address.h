// Where the sockets of a random program are bound and connect to.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace chainio::random_program {

inline sockaddr_in local(std::uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

// Behind a call that was to get a port: ends the program where somebody else has that. Who runs it takes another one.
inline void leave_if_taken() {
    constexpr int kPortTaken = 75;
    if (errno == EADDRINUSE) std::_Exit(kPortTaken);
}

}  // namespace chainio::random_program
