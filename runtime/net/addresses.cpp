// The IP addresses of an interface, and of the others, as the kernel lists them: by the interface's number, whatever
// label an address has.
#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/net/interface.h"
#include "runtime/net/route_socket.h"

namespace chainio::net {
namespace {

constexpr std::size_t kRoom = 32768;  // of what the kernel says at once
constexpr Address kMappedIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool ask_for_all(const RouteSocket& socket) {
    struct {
        nlmsghdr header;
        ifaddrmsg address;
    } request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = RTM_GETADDR;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    return socket.ask(request);
}

// An address that somebody else may have is not answered at, nor one that somebody has, which stays tentative: the
// kernel does not, either.
bool is_usable(std::uint32_t flags) { return (flags & IFA_F_TENTATIVE) == 0 || (flags & IFA_F_OPTIMISTIC) != 0; }

std::optional<Address> address_in(const nlmsghdr* message) {
    const auto* about = static_cast<const ifaddrmsg*>(NLMSG_DATA(message));
    const std::size_t bytes = about->ifa_family == AF_INET ? 4 : 16;
    std::uint32_t flags = about->ifa_flags;
    const void *own = nullptr, *other = nullptr;  // of a point-to-point link the second is the peer's
    auto left = static_cast<int>(IFA_PAYLOAD(message));
    for (const rtattr* each = IFA_RTA(about); RTA_OK(each, left); each = RTA_NEXT(each, left)) {
        if (each->rta_type == IFA_LOCAL && RTA_PAYLOAD(each) == bytes) own = RTA_DATA(each);
        if (each->rta_type == IFA_ADDRESS && RTA_PAYLOAD(each) == bytes) other = RTA_DATA(each);
        if (each->rta_type == IFA_FLAGS && RTA_PAYLOAD(each) == sizeof flags)
            std::memcpy(&flags, RTA_DATA(each), sizeof flags);
    }
    if (own == nullptr) own = other;
    if (own == nullptr || !is_usable(flags)) return std::nullopt;
    Address address = bytes == 4 ? kMappedIpv4 : Address{};
    std::memcpy(address.data() + address.size() - bytes, own, bytes);
    return address;
}

// The broadcast addresses of a network of IPv4: that which somebody may have given it, and that of its length, which
// the kernel keeps beside it. A network of one or two addresses has none.
void add_broadcasts(const nlmsghdr* message, std::vector<Address>& found) {
    const auto* about = static_cast<const ifaddrmsg*>(NLMSG_DATA(message));
    if (about->ifa_family != AF_INET) return;
    const auto add = [&](const void* bytes) {
        Address address = kMappedIpv4;
        std::memcpy(address.data() + 12, bytes, 4);
        if (std::ranges::find(found, address) == found.end()) found.push_back(address);
    };
    auto left = static_cast<int>(IFA_PAYLOAD(message));
    for (const rtattr* each = IFA_RTA(about); RTA_OK(each, left); each = RTA_NEXT(each, left)) {
        std::uint32_t address = 0;
        if (RTA_PAYLOAD(each) != sizeof address) continue;
        std::memcpy(&address, RTA_DATA(each), sizeof address);
        if (each->rta_type == IFA_BROADCAST) add(&address);
        if (each->rta_type != IFA_ADDRESS || about->ifa_prefixlen >= 31) continue;
        address |= htonl(UINT32_MAX >> about->ifa_prefixlen);
        add(&address);
    }
}

}  // namespace

std::optional<Addresses> addresses_of(unsigned index) {
    const RouteSocket socket;
    if (!ask_for_all(socket)) return std::nullopt;
    Addresses found;
    std::vector<Address> broadcasts;
    alignas(nlmsghdr) std::array<std::byte, kRoom> messages;
    while (auto left = static_cast<unsigned>(socket.take(messages))) {
        const auto* message = reinterpret_cast<const nlmsghdr*>(messages.data());
        for (; NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
            if (message->nlmsg_type == NLMSG_DONE) {
                found.others.insert(found.others.end(), broadcasts.begin(), broadcasts.end());
                return found;
            }
            if (message->nlmsg_type == NLMSG_ERROR) {
                errno = -static_cast<const nlmsgerr*>(NLMSG_DATA(message))->error;
                return std::nullopt;
            }
            if (message->nlmsg_type != RTM_NEWADDR || message->nlmsg_len < NLMSG_SPACE(sizeof(ifaddrmsg))) continue;
            const auto* about = static_cast<const ifaddrmsg*>(NLMSG_DATA(message));
            add_broadcasts(message, broadcasts);
            const bool is_ip = about->ifa_family == AF_INET || about->ifa_family == AF_INET6;
            const auto address = is_ip ? address_in(message) : std::nullopt;
            if (!address) continue;
            // At another link somebody else may have what is an address of this one.
            if (about->ifa_index == index)
                found.own.push_back(*address);
            else if (!is_of_link(*address))
                found.others.push_back(*address);
        }
    }
    return std::nullopt;
}

}  // namespace chainio::net
