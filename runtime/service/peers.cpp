#include "runtime/service/peers.h"

#include <netinet/in.h>

#include <cstring>

namespace chainio::service {

std::uint16_t Peers::place_of(const sockaddr_storage& address) {
    std::uint64_t parts[2] = {0, 0};
    if (address.ss_family == AF_INET6)
        std::memcpy(parts, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, sizeof parts);
    else if (address.ss_family == AF_INET)
        std::memcpy(parts, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof(in_addr));
    constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
    return static_cast<std::uint16_t>(((parts[0] * kSpread ^ parts[1]) * kSpread >> 32) % kPlaces);
}

bool Peers::copies(std::uint16_t place, std::uint64_t now_ns) {
    Place& at = places_[place];
    if (at.until_ns == 0) return false;
    if (now_ns < at.until_ns) return true;
    at = {};
    return false;
}

bool Peers::was_copied(std::uint16_t place, std::uint64_t now_ns) {
    Place& at = places_[place];
    if (at.until_ns != 0 || ++at.copies < kFew) return false;
    at.until_ns = now_ns + kBelievedNs;
    return true;
}

}  // namespace chainio::service
