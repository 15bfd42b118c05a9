#include "runtime/net/path_mtu.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

#include "runtime/net/clock.h"

namespace chainio::net {
namespace {

constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kGoodFor = 1'000'000'000;  // ns
constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static_assert(sizeof(cio_path) == 64, "a place is a cache line");

// A route's question, with the two addresses of a version of IP.
struct Question {
    nlmsghdr header{};
    rtmsg route{};
    alignas(NLMSG_ALIGNTO) std::array<std::byte, std::size_t{2} * RTA_SPACE(sizeof(Address))> attributes{};

    void add(unsigned short type, std::span<const std::uint8_t> bytes) {
        const rtattr attribute{.rta_len = static_cast<unsigned short>(RTA_LENGTH(bytes.size())), .rta_type = type};
        std::byte* at = attributes.data() + (header.nlmsg_len - offsetof(Question, attributes));
        std::memcpy(at, &attribute, sizeof attribute);
        std::memcpy(at + RTA_LENGTH(0), bytes.data(), bytes.size());
        header.nlmsg_len += static_cast<std::uint32_t>(RTA_SPACE(bytes.size()));
    }
};

Question question_of(const Address& peer, const Address& own, std::uint32_t serial) {
    const bool v6 = !std::ranges::equal(kMapped, std::span(peer).first(kMapped.size()));
    const std::size_t skip = v6 ? 0 : kMapped.size();
    const auto bits = static_cast<unsigned char>(8 * (peer.size() - skip));
    Question made;
    made.header.nlmsg_len = offsetof(Question, attributes);
    made.header.nlmsg_type = RTM_GETROUTE;
    made.header.nlmsg_flags = NLM_F_REQUEST;
    made.header.nlmsg_seq = serial;
    made.route.rtm_family = v6 ? AF_INET6 : AF_INET;
    made.route.rtm_dst_len = made.route.rtm_src_len = bits;
    made.add(RTA_DST, std::span(peer).subspan(skip));
    made.add(RTA_SRC, std::span(own).subspan(skip));
    return made;
}

// The attribute of that type among these, without its header; empty: there is none.
std::span<const std::byte> find(std::span<const std::byte> attributes, unsigned short type) {
    rtattr each{};
    while (attributes.size() >= sizeof each) {
        std::memcpy(&each, attributes.data(), sizeof each);
        if (each.rta_len < sizeof each || each.rta_len > attributes.size()) return {};
        if ((each.rta_type & NLA_TYPE_MASK) == type)
            return attributes.subspan(RTA_LENGTH(0), each.rta_len - RTA_LENGTH(0));
        attributes = attributes.subspan(std::min<std::size_t>(RTA_ALIGN(each.rta_len), attributes.size()));
    }
    return {};
}

// What a message says of the route's MTU.
std::uint32_t mtu_in(std::span<const std::byte> message) {
    constexpr std::size_t kBegin = NLMSG_LENGTH(sizeof(rtmsg));
    if (message.size() < kBegin) return kUnknown;
    const auto said = find(find(message.subspan(kBegin), RTA_METRICS), RTAX_MTU);
    std::uint32_t mtu = 0;
    if (said.size() == sizeof mtu) std::memcpy(&mtu, said.data(), sizeof mtu);
    return mtu == 0 ? kUnknown : mtu;
}

}  // namespace

PathMtu::PathMtu(std::span<cio_path> paths, std::uint64_t seed)
    : paths_(paths), seed_(seed), socket_(NewsSocket::connect(NETLINK_ROUTE)) {}

std::uint32_t PathMtu::to(const Address& peer, const Address& own) {
    cio_path wanted{};
    std::memcpy(wanted.peer, peer.data(), sizeof wanted.peer);
    std::memcpy(wanted.own, own.data(), sizeof wanted.own);
    cio_path& path = paths_[cio_path_slot(seed_, wanted.peer, wanted.own)];
    const std::uint64_t now = now_ns();
    const bool same = std::ranges::equal(path.peer, wanted.peer) && std::ranges::equal(path.own, wanted.own);
    if (same && path.expires_ns > now) return path.mtu;

    const std::uint32_t mtu = ask(peer, own), version = path.version;
    std::atomic_ref(path.version).store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    std::ranges::copy(wanted.peer, path.peer);
    std::ranges::copy(wanted.own, path.own);
    path.mtu = mtu;
    path.expires_ns = now + kGoodFor;
    std::atomic_ref(path.version).store(version + 2, std::memory_order_release);
    return mtu;
}

// Routers tell of packets that go by the route which the kernel would take, whichever interface the request came by.
std::uint32_t PathMtu::ask(const Address& peer, const Address& own) {
    // A link's own addresses are on the link.
    if (!socket_ || is_of_link(peer)) return kUnknown;
    const Question question = question_of(peer, own, ++serial_);
    if (send(socket_->fd(), &question, question.header.nlmsg_len, MSG_DONTWAIT) < 0) return kUnknown;
    // The kernel has answered when it returns. Answers to earlier questions are there where a signal was in between.
    alignas(nlmsghdr) std::array<std::byte, 4096> message;
    while (const auto heard = socket_->take(message)) {
        nlmsghdr header{};
        if (heard->length < sizeof header) continue;
        std::memcpy(&header, message.data(), sizeof header);
        if (header.nlmsg_seq != serial_) continue;
        if (header.nlmsg_type != RTM_NEWROUTE) return kUnknown;
        return mtu_in(
            std::span(message).first(std::min<std::size_t>({heard->length, header.nlmsg_len, message.size()})));
    }
    return kUnknown;
}

}  // namespace chainio::net
