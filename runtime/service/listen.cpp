#include "runtime/service/listen.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>

#include "runtime/net/interface.h"

namespace chainio::service {
namespace {

constexpr int kBacklog = 65536;          // connections that wait; the kernel takes at most net.core.somaxconn
constexpr int kReceiveBuffer = 4 << 20;  // asked for; the kernel gives at most net.core.rmem_max

struct Address {
    sockaddr_storage storage{};
    socklen_t length = 0;
};

std::string no_address(const std::string& said) {
    return fmt::format("'{}' is no address; give one in numbers, as 127.0.0.1 or ::1", said);
}

std::expected<Address, std::string> address_of(const std::string& said, std::uint16_t port) {
    const auto linked = net::linked_of(said);
    if (!linked) return std::unexpected(linked.error().message);
    const std::string& text = linked->address;
    Address out;
    auto& six = reinterpret_cast<sockaddr_in6&>(out.storage);
    auto& four = reinterpret_cast<sockaddr_in&>(out.storage);
    if (inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(port);
        six.sin6_scope_id = linked->link;
        out.length = sizeof six;
    } else if (inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
        four.sin_family = AF_INET;
        four.sin_port = htons(port);
        out.length = sizeof four;
    } else {
        return std::unexpected(no_address(said));
    }
    return out;
}

std::uint16_t port_of(int fd) {
    Address bound;
    bound.length = sizeof bound.storage;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) return 0;
    return ntohs(bound.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound.storage).sin6_port
                                                     : reinterpret_cast<sockaddr_in&>(bound.storage).sin_port);
}

bool is_any(const Address& address) {
    if (address.storage.ss_family == AF_INET6) {
        const auto& six = reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr;
        const bool any_ipv4 =
            IN6_IS_ADDR_V4MAPPED(&six) != 0 && std::ranges::all_of(std::span(six.s6_addr).last(4), std::logical_not());
        return IN6_IS_ADDR_UNSPECIFIED(&six) != 0 || any_ipv4;
    }
    return reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr == htonl(INADDR_ANY);
}

// What whoever has chosen address and port can do; empty when that is not known.
const char* remedy(int error) {
    switch (error) {
        case EADDRINUSE:
            return "; `ss -lntup` says who has it: end that one, or take another port (--port SERVICE=PORT)";
        case EACCES:
            return "; ports below 1024 are for CAP_NET_BIND_SERVICE: have it, or take another port (--port "
                   "SERVICE=PORT)";
        case EADDRNOTAVAIL: return "; no interface has that address: `ip addr` lists what --bind can be";
        case EINVAL: return "; an address of a single link wants its interface: --bind fe80::1%eth0";
        default: return "";
    }
}

// Whether the kernel knows the multishot recvmsg.
bool has_datagrams() {
    utsname name{};
    return uname(&name) == 0 && std::atoi(name.release) >= 6;
}

}  // namespace

std::string wrong_address(const std::string& address) {
    const std::string text = address.substr(0, address.find('%'));
    in6_addr six{};
    in_addr four{};
    const bool is_one = inet_pton(AF_INET6, text.c_str(), &six) == 1 || inet_pton(AF_INET, text.c_str(), &four) == 1;
    return is_one ? std::string() : no_address(address);
}

std::expected<Bound, std::string> listen_at(const std::string& wanted, std::uint16_t port, bool tcp) {
    std::string text = wanted;
    auto address = address_of(text, port);
    if (!address) return std::unexpected(address.error());
    const int type = (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC;
    int fd = socket(address->storage.ss_family, type, 0);
    if (fd < 0 && errno == EAFNOSUPPORT && text == "::") {
        text = "0.0.0.0";
        address = address_of(text, port);
        fd = socket(AF_INET, type, 0);
    }
    const auto failed = [&](const char* what) {
        const int why = errno;
        if (fd >= 0) close(fd);
        return std::unexpected(fmt::format("cannot {} {} {} port {}: {}{}", what, tcp ? "tcp" : "udp", text, port,
                                           std::strerror(why), remedy(why)));
    };
    if (fd < 0) return failed("open a socket for");
    const int on = 1, off = 0;
    const bool six = address->storage.ss_family == AF_INET6;
    // Of datagrams this would let two servers have one port, each getting some.
    if (tcp) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (six) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address->storage), address->length) != 0 ||
        (tcp && ::listen(fd, kBacklog) != 0))
        return failed("listen at");
    if (!tcp && !has_datagrams()) {
        errno = ENOSYS;
        return failed("receive datagrams, which needs Linux 6.0, at");
    }
    // Which of our addresses a datagram came to is only asked where there are several.
    if (!tcp && is_any(*address)) {
        setsockopt(fd, six ? static_cast<int>(IPPROTO_IPV6) : static_cast<int>(IPPROTO_IP),
                   six ? IPV6_RECVPKTINFO : IP_PKTINFO, &on, sizeof on);
        // A socket of IPv6 has none that comes to a group of IPv4, unlike one of IPv4, unless it asks for those.
        if (six) setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &on, sizeof on);
    }
    if (!tcp) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
    return Bound{fd, port_of(fd), text,
                 six ? reinterpret_cast<const sockaddr_in6&>(address->storage).sin6_scope_id : 0};
}

void keep_alive(int fd) {
    const int on = 1, idle = 60, between = 10, probes = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// A filter that keeps no byte of any.
void take_no_more(int fd) {
    sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &none};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

}  // namespace chainio::service
