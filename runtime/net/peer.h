// How a veth's peer takes packets that an XDP program sends back.
#pragma once
#include <expected>

#include "bpf-templates/chainio_xdp.h"
#include "runtime/net/interface.h"

namespace chainio::net {

// Of a veth with a native program. FeatureNews tells of changes, and of the end of CIO_XDP_BY_TX only LinkNews: without
// `links_are_heard` that is not said. The error is errno: for want of what it says the kernel could not be asked.
std::expected<cio_xdp_answering, int> taken_by_peer(const Interface& interface, bool links_are_heard);

}  // namespace chainio::net
