#include "runtime/service/own_source.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/net/shortage.h"

namespace chainio::service {
namespace {

// What is sent to an address of one's own leaves from that address, and what is sent elsewhere does not. To connect a
// socket of datagrams sends nothing. `address` is where a name of that family has it.
template <class Name, class Address>
std::expected<bool, int> is_reached_from_itself(const Name& there, Address Name::* address) {
    const int fd = socket(reinterpret_cast<const sockaddr&>(there).sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return std::unexpected(errno);
    Name here{};
    socklen_t length = sizeof here;
    const bool known = connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&here), &length) == 0;
    const int why = known ? 0 : errno;
    close(fd);
    // EAGAIN: no port is free for it. All else says that there is no way, by which nothing would come back either.
    if (why == EAGAIN || net::is_shortage(why)) return std::unexpected(why);
    return known && std::memcmp(&(here.*address), &(there.*address), sizeof(Address)) == 0;
}

}  // namespace

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

// Addresses of IPv4 are asked about by sockets of their own: where there is no IPv6, there are no others.
std::expected<bool, int> is_own(const Source& source) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(source.port);
    six.sin6_scope_id = source.link;
    std::memcpy(&six.sin6_addr, source.address.data(), source.address.size());
    if (!IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return is_reached_from_itself(six, &sockaddr_in6::sin6_addr);
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = six.sin6_port;
    std::memcpy(&four.sin_addr, source.address.data() + 12, sizeof four.sin_addr);
    return is_reached_from_itself(four, &sockaddr_in::sin_addr);
}

}  // namespace chainio::service
