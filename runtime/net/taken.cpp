#include "runtime/net/taken.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace chainio::net {
namespace {

// False: two of them lie in one slot.
bool placed(cio_xdp_taken& made, std::span<const Address> addresses, cio_xdp_whose whose) {
    for (const Address& address : addresses) {
        cio_xdp_address wanted{.half = {}, .whose = whose};
        std::memcpy(wanted.half, address.data(), sizeof wanted.half);
        cio_xdp_address& slot = made.address[cio_xdp_slot(made.seed, wanted.half[0], wanted.half[1])];
        const bool same = std::ranges::equal(slot.half, wanted.half);
        if (slot.whose != CIO_XDP_FOREIGN && !same) return false;
        // What is taken stays so, whoever else has it.
        if (slot.whose == CIO_XDP_FOREIGN) slot = wanted;
    }
    return true;
}

}  // namespace

std::unique_ptr<cio_xdp_taken> taken(std::span<const std::uint16_t> ports, std::span<const Address> addresses,
                                     std::span<const Address> others) {
    others = others.first(std::min<std::size_t>(others.size(), CIO_XDP_OTHERS));
    auto made = std::make_unique<cio_xdp_taken>();
    // With as many addresses as there may be, one seed in fifty does.
    while (!placed(*made, addresses, CIO_XDP_TAKEN) || !placed(*made, others, CIO_XDP_OTHER)) {
        const std::uint64_t next = made->seed + 1;
        *made = {};
        made->seed = next;
    }
    for (std::size_t i = 0; i < ports.size(); i++) made->service[htons(ports[i])] = static_cast<std::uint8_t>(i + 1);
    return made;
}

}  // namespace chainio::net
