// How long packets to a peer may be, as the kernel knows it: from its routes, and from the routers that have told it
// that a packet was too long for them. Asked for a second at a time, into memory that the XDP program looks at as well.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "bpf-templates/chainio_xdp.h"
#include "runtime/net/interface.h"
#include "runtime/net/news_socket.h"

namespace chainio::net {

class PathMtu {
  public:
    // `paths` has CIO_PATHS places.
    PathMtu(std::span<cio_path> paths, std::uint64_t seed);
    // False: there is no netlink socket, and nothing is known of any way.
    bool can_ask() const { return socket_.has_value(); }
    // Of whole packets from one of our addresses; the largest number where the kernel says nothing. About ten
    // microseconds once a second for each two of addresses, a tenth of one otherwise.
    std::uint32_t to(const Address& peer, const Address& own);
    // How often the kernel was.
    std::uint64_t asked() const { return serial_; }

  private:
    std::uint32_t ask(const Address& peer, const Address& own);

    std::span<cio_path> paths_;
    std::uint64_t seed_ = 0;
    std::optional<NewsSocket> socket_;
    std::uint32_t serial_ = 0;
};

}  // namespace chainio::net
