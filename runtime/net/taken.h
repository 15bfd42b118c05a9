// What the XDP program of an interface takes, as it looks it up.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "bpf-templates/chainio_xdp.h"
#include "runtime/net/interface.h"

namespace chainio::net {

// At most CIO_XDP_ADDRESSES addresses; the service at port n has place n. `others` are the machine's as well: nothing
// that says to come from one is taken. Those behind the first CIO_XDP_OTHERS are not looked at.
std::unique_ptr<cio_xdp_taken> taken(std::span<const std::uint16_t> ports, std::span<const Address> addresses,
                                     std::span<const Address> others);

}  // namespace chainio::net
