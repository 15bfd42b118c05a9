// The headers of UDP datagrams as they lie in a frame, and the sums that they want.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace chainio::net {

inline constexpr std::size_t kEthernet = 14, kIpv4 = 20, kIpv6 = 40, kUdp = 8;

// Where the payload of a datagram begins, once its headers were found whole.
struct Headers {
    bool v6 = false;
    std::uint16_t bytes = 0;           // Ethernet, IP and UDP
    std::uint16_t payload_length = 0;  // as UDP says; it may go on in further frames
    std::uint16_t destination_port = 0;
};

// The headers at the beginning of `frame`, of a packet of `packet_length` bytes in all; nothing when they are not those
// of a whole UDP datagram without options. The checksum over the payload is not looked at: between two ends of the same
// machine it is usually a partial one.
std::optional<Headers> parse(std::span<const std::uint8_t> frame, std::size_t packet_length);

// Who asked, and at which of our addresses and ports. Addresses of IPv4 are ::ffff:a.b.c.d.
struct Ends {
    std::array<std::uint8_t, 16> peer, own;
    std::uint16_t peer_port = 0, own_port = 0;
};
Ends ends_of(std::span<const std::uint8_t> headers, bool v6);

// Ones' complement sums, as in RFC 1071: of bytes that begin at an even place, folded to 16 bits, and of two stretches
// where the second follows after `first_length` bytes.
std::uint16_t sum_of(std::span<const std::uint8_t> bytes);
std::uint16_t sum_with(std::uint16_t first, std::size_t first_length, std::uint16_t second);

// Makes the headers of a request those of its reply, with full sums: addresses and ports change sides.
void turn_around(std::span<std::uint8_t> headers, bool v6, std::uint16_t payload_length, std::uint16_t payload_sum);

}  // namespace chainio::net
