// What the XDP program of an interface takes, as it looks it up.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "bpf-templates/chainio_xdp.h"
#include "runtime/net/interface.h"

namespace chainio::net {

// At most CIO_XDP_ADDRESSES addresses; the service at port n has place n.
std::unique_ptr<cio_xdp_taken> taken(std::span<const std::uint16_t> ports, std::span<const Address> addresses);

}  // namespace chainio::net
