// Where the sockets of a random program are bound and connect to.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {

inline sockaddr_in local(std::uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

// Behind a call that was to get a port: ends the program where somebody else has that. Who runs it takes another one.
void leave_if_taken();
// The first process listens on the port that the spec names, the others on any.
int listener(const Actor& a);
std::uint16_t bound_port(int fd);
int connect_to(std::uint16_t port);

}  // namespace chainio::random_program
