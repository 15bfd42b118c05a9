// Replies to what came by an interface: how long they may be, and whether they leave from their frames, stay with the
// driver as well, or go by the socket of the same endpoint.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/net/clock.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

static_assert(Answer::kHeadroom >= net::kRoomForHeaders);

template <class Info>
std::span<std::uint8_t> put_control(Datagram& datagram, int level, int type, const Info& info) {
    static_assert(CMSG_SPACE(sizeof info) <= sizeof datagram.control);
    auto* header = reinterpret_cast<cmsghdr*>(datagram.control.data());
    *header = {.cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = level, .cmsg_type = type};
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
    return std::span(datagram.control).first(CMSG_SPACE(sizeof info));
}

template <class Name>
std::span<std::uint8_t> put_peer(Datagram& datagram, const Name& name) {
    static_assert(sizeof name <= sizeof datagram.peer);
    std::memcpy(datagram.peer.data(), &name, sizeof name);
    return std::span(datagram.peer).first(sizeof name);
}

// Says to a socket where the reply goes, and from which address. False: the socket has no such addresses.
bool address_reply(int fd, const net::Ends& ends, unsigned link, Datagram& datagram) {
    int domain = 0;
    socklen_t size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return false;
    if (domain == AF_INET6) {
        sockaddr_in6 name{};
        name.sin6_family = AF_INET6;
        name.sin6_port = htons(ends.peer_port);
        name.sin6_scope_id = link;
        in6_pktinfo info{};
        info.ipi6_ifindex = link;
        std::memcpy(&name.sin6_addr, ends.peer.data(), ends.peer.size());
        std::memcpy(&info.ipi6_addr, ends.own.data(), ends.own.size());
        datagram.received.peer = put_peer(datagram, name);
        datagram.received.control = put_control(datagram, IPPROTO_IPV6, IPV6_PKTINFO, info);
        return true;
    }
    constexpr std::size_t kBefore = sizeof(net::Address) - sizeof(in_addr);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(ends.peer_port);
    in_pktinfo info{};
    std::memcpy(&name.sin_addr, ends.peer.data() + kBefore, sizeof name.sin_addr);
    std::memcpy(&info.ipi_spec_dst, ends.own.data() + kBefore, sizeof info.ipi_spec_dst);
    datagram.received.peer = put_peer(datagram, name);
    datagram.received.control = put_control(datagram, IPPROTO_IP, IP_PKTINFO, info);
    return true;
}

}  // namespace

std::size_t Server::longest_payload(const Datagram& datagram) const {
    constexpr std::size_t kLongest = 65507;  // over IPv4
    if (datagram.port == engine::kNoIndex) return kLongest;
    return interfaces_[datagram.port].port->longest_reply(datagram.frame);
}

// Of a datagram of that many bytes, no more than longest_payload(), what reaches the one who asked.
std::size_t Server::longest_on_way(const Datagram& datagram, std::size_t wanted) const {
    if (datagram.port == engine::kNoIndex) return wanted;
    return interfaces_[datagram.port].port->longest_on_way(datagram.frame, static_cast<std::uint32_t>(wanted));
}

// What does not fit into packets that its way takes leaves by the socket of the port, and the kernel cuts it into
// fragments. False: there is none.
bool Server::go_by_socket(Datagram& datagram) const {
    const Interface& interface = interfaces_[datagram.port];
    const net::Ends ends = interface.port->ends(datagram.frame);
    const auto socket = std::ranges::find_if(
        listeners_, [&](const Listener& each) { return !each.tcp && each.fd >= 0 && each.port == ends.own_port; });
    if (socket == listeners_.end()) return false;
    const auto link = net::is_of_link(ends.peer) ? interface.port->interface().index : 0;
    if (!address_reply(socket->fd, ends, link, datagram)) return false;
    datagram.fd = socket->fd;
    fallbacks_->note("xdp-path-mtu",
                     "replies were longer than a packet that their way takes, and left by the service's socket");
    return true;
}

void Server::send_frames(Datagram& datagram, std::span<const engine::Stretch> stretches) {
    std::array<umem::Descriptor, Answer::kMostStretches + 1> data{};
    ServiceCounters& counters = counters_of(datagram);
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < stretches.size(); i++) {
        data[i].kind = umem::Kind::send;
        data[i].frame = stretches[i].frame;
        data[i].offset = stretches[i].offset;
        data[i].length = stretches[i].length;
        length += stretches[i].length;
    }
    Interface& interface = interfaces_[datagram.port];
    // However long the request has waited for its disk, the reply is only handed over with the next flush().
    if (interface.until_ns != 0) interface.until_ns = net::now_ns() + interface.last_ns;
    if (interface.port->reply(datagram.frame, {data.data(), stretches.size()}))
        counters.bytes_out += length;
    else
        counters.vanished++;
}

// What a request was answered with goes to the driver, for the next one like it. Only a reply that depends on the whole
// datagram's bytes and on nothing else does: not what an overload or a failure was answered with, and not the end of a
// datagram of several requests.
void Server::keep_reply(const Datagram& datagram, std::uint32_t slot, std::span<const engine::Stretch> stretches) {
    const Requests& requests = datagram.generation->requests;
    const bool whole =
        datagram.rest.size() == datagram.received.bytes.size() && datagram.request_length == datagram.rest.size();
    if (datagram.kept_epoch == 0 || !whole || datagram.dropped) return;
    if (!interfaces_[datagram.port].silent.empty()) return;  // a copy that serves nobody
    if (requests.ending(slot) != Ending::answered || requests.closes(slot) || requests.skips(slot) != 0) return;
    std::array<std::span<const std::uint8_t>, Answer::kMostStretches + 1> parts;
    std::size_t length = 0;
    for (std::size_t i = 0; i < stretches.size(); i++) {
        parts[i] = {datagram.answer.data(stretches[i]), stretches[i].length};
        length += stretches[i].length;
    }
    if (length > interfaces_[datagram.port].port->longest_kept()) return;
    interfaces_[datagram.port].port->replies().keep(datagram.kept_number, datagram.kept_epoch, datagram.arrived_ns,
                                                    datagram.rest, {parts.data(), stretches.size()});
}

}  // namespace chainio::service
