// Datagrams whose reply would be the next request.
#pragma once
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "runtime/net/interface.h"

namespace chainio::service {

struct Source {
    net::Address address;
    std::uint16_t port = 0;
    unsigned link = 0;  // of an address of a single link
};

// The sender as the kernel tells of it: a sockaddr_in or sockaddr_in6.
std::optional<Source> source_of(std::span<const std::uint8_t> peer);

// Whether the address is this machine's; Linux takes packets from a network over IPv6 that say so. Asks the kernel by a
// socket of its own; where that cannot be had, or has no port, the error is errno.
std::expected<bool, int> is_own(const Source& source);

}  // namespace chainio::service
