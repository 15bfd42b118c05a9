#include "runtime/service/own_source.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace chainio::service {

std::optional<Source> source_of(std::span<const std::uint8_t> peer) {
    Source source{};
    sockaddr_in6 six{};
    sockaddr_in four{};
    if (peer.size() >= sizeof six && (std::memcpy(&six, peer.data(), sizeof six), six.sin6_family == AF_INET6)) {
        std::memcpy(source.address.data(), &six.sin6_addr, source.address.size());
        source.port = ntohs(six.sin6_port);
        source.link = six.sin6_scope_id;
        return source;
    }
    if (peer.size() < sizeof four || (std::memcpy(&four, peer.data(), sizeof four), four.sin_family != AF_INET))
        return std::nullopt;
    source.address[10] = source.address[11] = 0xff;
    std::memcpy(source.address.data() + 12, &four.sin_addr, sizeof four.sin_addr);
    source.port = ntohs(four.sin_port);
    return source;
}

// What is sent to an address of one's own leaves from that address, and what is sent elsewhere does not. To connect a
// socket of datagrams sends nothing. Addresses of IPv4 are for it too, whatever net.ipv6.bindv6only says.
bool is_own(const Source& source) {
    const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    const int of_six_only = 0;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &of_six_only, sizeof of_six_only);
    sockaddr_in6 there{}, here{};
    there.sin6_family = AF_INET6;
    there.sin6_port = htons(source.port);
    there.sin6_scope_id = source.link;
    std::memcpy(&there.sin6_addr, source.address.data(), source.address.size());
    socklen_t length = sizeof here;
    const bool known = connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&here), &length) == 0;
    close(fd);
    return known && IN6_ARE_ADDR_EQUAL(&here.sin6_addr, &there.sin6_addr);
}

}  // namespace chainio::service
