#include "runtime/net/taken.h"

#include <arpa/inet.h>

#include <cstring>

namespace chainio::net {
namespace {

// False: two of them lie in one slot.
bool placed(cio_xdp_taken& made, std::span<const Address> addresses) {
    for (const Address& address : addresses) {
        cio_xdp_address wanted{.half = {}, .used = 1};
        std::memcpy(wanted.half, address.data(), sizeof wanted.half);
        cio_xdp_address& slot = made.address[cio_xdp_slot(made.seed, wanted.half[0], wanted.half[1])];
        if (slot.used != 0 && std::memcmp(&slot, &wanted, sizeof wanted) != 0) return false;
        slot = wanted;
    }
    return true;
}

}  // namespace

std::unique_ptr<cio_xdp_taken> taken(std::span<const std::uint16_t> ports, std::span<const Address> addresses) {
    auto made = std::make_unique<cio_xdp_taken>();
    // With as many addresses as there may be, one seed in fifty does.
    while (!placed(*made, addresses)) {
        const std::uint64_t next = made->seed + 1;
        *made = {};
        made->seed = next;
    }
    for (std::size_t i = 0; i < ports.size(); i++) made->service[htons(ports[i])] = static_cast<std::uint8_t>(i + 1);
    return made;
}

}  // namespace chainio::net
