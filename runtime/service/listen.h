// Sockets that services listen at.
#pragma once
#include <cstdint>
#include <expected>
#include <string>

namespace chainio::service {

struct Bound {
    int fd = -1;
    std::uint16_t port = 0;  // that the kernel gave
    std::string address;     // that it really is
    unsigned link = 0;       // the number of the interface that the address names; 0: none
};

// What is wrong with the form of an address to listen at; empty when it is one. Whether a link that it names is there
// is not looked at.
std::string wrong_address(const std::string& address);

// Listens at an address given in numbers, "::" taking IPv4 as well; port 0 lets the kernel choose. The descriptor is
// the caller's to close.
std::expected<Bound, std::string> listen_at(const std::string& address, std::uint16_t port, bool tcp);

// A peer of this connection, or of one that comes by this socket, that is gone without a word is noticed within a
// minute and a half. What is sent leaves at once.
void keep_alive(int fd);

// Nothing more comes to a socket of datagrams from here on, as far as the kernel does that; what it holds stays.
void take_no_more(int fd);

}  // namespace chainio::service
