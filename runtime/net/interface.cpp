#include "runtime/net/interface.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>

#include "runtime/net/asker.h"
#include "runtime/net/interface_names.h"
#include "runtime/net/route_socket.h"
#include "runtime/net/shortage.h"

namespace chainio::net {
namespace {

constexpr Address kAnyIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};

std::expected<bpf_xdp_query_opts, int> query_xdp(const Interface& interface) {
    bpf_xdp_query_opts said{};
    said.sz = sizeof said;
    const int failed = bpf_xdp_query(static_cast<int>(interface.index), 0, &said);
    if (failed != 0) return std::unexpected(-failed);
    return said;
}

}  // namespace

std::expected<Linked, Unfound> linked_of(const std::string& text) {
    const std::size_t percent = text.find('%');
    Linked found{text.substr(0, percent), 0};
    const auto refuse = [](std::string words) { return std::unexpected(Unfound{std::move(words)}); };
    if (percent == std::string::npos) return found;
    const std::string name = text.substr(percent + 1);
    in6_addr address{};
    if (inet_pton(AF_INET6, found.address.c_str(), &address) != 1 || !IN6_IS_ADDR_LINKLOCAL(&address))
        return refuse(
            fmt::format("'{}' is no address; only those of a single link (fe80::1%eth0) name an interface", text));
    Asker asker(name);
    if (const int why = asker.error(); why != 0)
        return std::unexpected(Unfound{
            fmt::format("'{}': cannot ask about the interface: {}", text, std::strerror(why)), is_shortage(why)});
    if (name.size() < IFNAMSIZ && asker.ask(SIOCGIFINDEX))
        found.link = static_cast<unsigned>(asker.answer().ifr_ifindex);
    if (unsigned number = 0; found.link == 0 && !name.empty()) {
        const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
        const bool whole = read.ec == std::errc{} && read.ptr == name.data() + name.size();
        if (whole && asker.use(number)) found.link = number;
    }
    if (found.link == 0)
        return refuse(fmt::format("'{}': there is no interface '{}'; `ip link` lists them", text, name));
    return found;
}

std::optional<Address> address_of(const std::string& text) {
    Address address{};
    if (inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
    address = kAnyIpv4;
    if (inet_pton(AF_INET, text.c_str(), &address[12]) == 1) return address;
    return std::nullopt;
}

std::vector<Address> heard_at(const Address& bound, std::vector<Address> addresses) {
    if (bound == Address{}) return addresses;
    std::erase_if(addresses, [&](const Address& each) {
        return bound == kAnyIpv4 ? !std::ranges::equal(std::span(each).first(12), std::span(bound).first(12))
                                 : each != bound;
    });
    return addresses;
}

bool is_of_link(const Address& address) { return address[0] == 0xfe && (address[1] & 0xc0) == 0x80; }

std::string master_of(const Interface& interface) {
    struct {
        nlmsghdr header;
        ifinfomsg link;
    } request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = RTM_GETLINK;
    request.header.nlmsg_flags = NLM_F_REQUEST;
    request.link.ifi_index = static_cast<int>(interface.index);
    alignas(nlmsghdr) std::array<std::byte, 16384> answer{};
    const RouteSocket socket;
    const std::size_t got = socket.ask(request) ? socket.take(answer) : 0;
    const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
    if (got < sizeof request || header->nlmsg_type != RTM_NEWLINK) return {};
    auto left = got - NLMSG_SPACE(sizeof(ifinfomsg));
    const auto* each = reinterpret_cast<const rtattr*>(answer.data() + NLMSG_SPACE(sizeof(ifinfomsg)));
    for (; RTA_OK(each, left); each = RTA_NEXT(each, left)) {
        char name[IFNAMSIZ];
        std::uint32_t index = 0;
        if (each->rta_type != IFLA_MASTER || RTA_PAYLOAD(each) != sizeof index) continue;
        std::memcpy(&index, RTA_DATA(each), sizeof index);
        return if_indextoname(index, name) != nullptr ? name : "";
    }
    return {};
}

bool runs_on_members(const Interface& interface) { return interface.driver == "bonding"; }

std::optional<bool> is_gone(const Interface& interface) {
    Asker asker(interface.device);
    if (asker.use(interface.index)) return interface.device != asker.answer().ifr_name;
    return errno == ENODEV ? std::optional(true) : std::nullopt;
}

std::expected<Interface, Unfound> find_interface(const std::string& name) {
    Interface found;
    const auto unasked = [&](const char* what, int why) {
        return std::unexpected(
            Unfound{fmt::format("cannot ask {} '{}': {}", what, name, std::strerror(why)), is_shortage(why)});
    };
    found.name = name;
    // The kernel's calls take no name that is longer, although a further name of an interface may be.
    if (name.size() >= IFNAMSIZ)
        return std::unexpected(
            Unfound{fmt::format("'{}' has more than the {} characters of an interface's name: give the name that `ip "
                                "link` begins with instead of an altname",
                                name, IFNAMSIZ - 1)});
    Asker asker(name);
    if (asker.error() != 0) return unasked("about interface", asker.error());
    if (asker.ask(SIOCGIFINDEX)) found.index = static_cast<unsigned>(asker.answer().ifr_ifindex);
    if (found.index == 0 || !asker.use(found.index))
        return std::unexpected(Unfound{fmt::format("there is no network interface '{}': `ip link` lists them", name)});
    found.device = asker.answer().ifr_name;
    if (!asker.ask(SIOCGIFFLAGS)) return unasked("about interface", errno);
    found.up = (asker.answer().ifr_flags & IFF_UP) != 0;
    found.loopback = (asker.answer().ifr_flags & IFF_LOOPBACK) != 0;
    if (asker.ask(SIOCGIFMTU)) found.mtu = static_cast<unsigned>(asker.answer().ifr_mtu);
    if (asker.ask(SIOCGIFHWADDR)) {
        const sockaddr& address = asker.answer().ifr_hwaddr;
        std::memcpy(found.mac.data(), address.sa_data, 6);
        found.ethernet = address.sa_family == ARPHRD_ETHER || address.sa_family == ARPHRD_LOOPBACK;
    }
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_GCHANNELS;
    if (asker.ethtool(&channels)) {
        found.queues = std::max({1u, channels.rx_count, channels.combined_count});
        const unsigned sending = std::max(channels.tx_count, channels.combined_count);
        found.senders = sending == 0 ? found.queues : std::min(sending, found.queues);
    }
    ethtool_drvinfo driver{};
    driver.cmd = ETHTOOL_GDRVINFO;
    if (asker.ethtool(&driver)) found.driver = driver.driver;
    auto addresses = addresses_of(found.index);
    if (!addresses) return unasked("for the addresses of", errno);
    found.addresses = std::move(addresses->own);
    found.others = std::move(addresses->others);
    return found;
}

std::expected<std::uint64_t, int> driver_features(const Interface& interface) {
    const auto said = query_xdp(interface);
    if (!said) return std::unexpected(said.error());
    return said->feature_flags;
}

std::expected<std::optional<AttachedProgram>, Unfound> attached_program(const Interface& interface) {
    const auto query = query_xdp(interface);
    if (!query)
        return std::unexpected(Unfound{fmt::format("cannot ask which XDP program is attached to '{}': {}",
                                                   interface.name, std::strerror(query.error())),
                                       lacks_descriptor(query.error())});
    AttachedProgram program;
    for (const std::uint32_t id : {query->prog_id, query->drv_prog_id, query->skb_prog_id, query->hw_prog_id}) {
        if (program.id == 0) program.id = id;
    }
    if (program.id == 0) return std::nullopt;
    program.generic = program.id == query->skb_prog_id;
    if (const int fd = bpf_prog_get_fd_by_id(program.id); fd >= 0) {
        bpf_prog_info info{};
        __u32 size = sizeof info;
        if (bpf_prog_get_info_by_fd(fd, &info, &size) == 0) program.name = info.name;
        close(fd);
    }
    return program;
}

}  // namespace chainio::net
