// Peers to which the kernel copies what it was to send without a copy: over loopback and veth, and by devices that do
// not gather. Which device it is follows from the peer's address, so that what one connection has found out holds for
// the next one; routes change, so that it does for a while only.
#pragma once
#include <sys/socket.h>

#include <array>
#include <cstdint>

namespace chainio::service {

class Peers {
  public:
    static constexpr std::uint16_t kUnknown = UINT16_MAX;
    static constexpr unsigned kFew = 3;                           // copies in a row until it is believed
    static constexpr std::uint64_t kBelievedNs = 60'000'000'000;  // from then on
    // Peers share places. Who shares one with a peer to which is copied is sent to with a copy meanwhile, too.
    static std::uint16_t place_of(const sockaddr_storage& address);
    bool copies(std::uint16_t place, std::uint64_t now_ns);
    // What became of a send without a copy. True: from here on it is believed that the next ones are copied.
    bool was_copied(std::uint16_t place, std::uint64_t now_ns);
    void was_not_copied(std::uint16_t place) { places_[place] = {}; }

  private:
    static constexpr std::size_t kPlaces = 1024;
    struct Place {
        std::uint64_t until_ns = 0;
        unsigned copies = 0;
    };
    std::array<Place, kPlaces> places_{};
};

}  // namespace chainio::service
