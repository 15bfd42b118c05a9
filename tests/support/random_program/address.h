// Where the sockets of a random program are bound and connect to.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>

namespace chainio::random_program {

inline sockaddr_in local(std::uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

}  // namespace chainio::random_program
