#include "runtime/net/packet.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace chainio::net {
namespace {

constexpr std::uint16_t kTypeIpv4 = 0x0800, kTypeIpv6 = 0x86dd;
constexpr std::uint8_t kProtocolUdp = 17, kHops = 64;

std::uint16_t big16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] << 8 | at[1]); }

void put16(std::uint8_t* at, std::uint16_t value) {
    at[0] = static_cast<std::uint8_t>(value >> 8);
    at[1] = static_cast<std::uint8_t>(value);
}

std::uint16_t fold(std::uint64_t sum) {
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

// The checksum of UDP over its pseudo-header, its header (whose field is zero) and the payload. Never 0, which would
// say that there is none: over IPv6 there has to be one.
std::uint16_t udp_checksum(std::span<const std::uint8_t> both_addresses, std::span<const std::uint8_t> udp,
                           std::uint16_t udp_length, std::uint16_t payload_sum) {
    const std::uint64_t sum =
        std::uint64_t{sum_of(both_addresses)} + kProtocolUdp + udp_length + sum_of(udp) + payload_sum;
    const auto checksum = static_cast<std::uint16_t>(~fold(sum));
    return checksum == 0 ? 0xffff : checksum;
}

}  // namespace

std::optional<Headers> parse(std::span<const std::uint8_t> frame, std::size_t packet_length) {
    if (frame.size() < kEthernet + kIpv4 + kUdp) return std::nullopt;
    const std::uint8_t* ip = frame.data() + kEthernet;
    Headers headers;
    std::size_t ip_payload = 0;
    if (big16(ip - 2) == kTypeIpv4) {
        const std::uint16_t total = big16(ip + 2);
        if (ip[0] != 0x45 || ip[9] != kProtocolUdp || (big16(ip + 6) & ~0x4000) != 0 || total < kIpv4)
            return std::nullopt;
        headers.bytes = kEthernet + kIpv4 + kUdp;
        ip_payload = total - kIpv4;
    } else if (big16(ip - 2) == kTypeIpv6 && frame.size() >= kEthernet + kIpv6 + kUdp) {
        if (ip[0] >> 4 != 6 || ip[6] != kProtocolUdp) return std::nullopt;
        headers.v6 = true;
        headers.bytes = kEthernet + kIpv6 + kUdp;
        ip_payload = big16(ip + 4);
    } else {
        return std::nullopt;
    }
    const std::uint8_t* udp = frame.data() + headers.bytes - kUdp;
    const std::uint16_t udp_length = big16(udp + 4);
    if (udp_length < kUdp || udp_length != ip_payload) return std::nullopt;
    if (headers.bytes - kUdp + udp_length > packet_length) return std::nullopt;
    headers.payload_length = udp_length - kUdp;
    headers.destination_port = big16(udp + 2);
    return headers;
}

Ends ends_of(std::span<const std::uint8_t> headers, bool v6) {
    const std::uint8_t *ip = headers.data() + kEthernet, *udp = ip + (v6 ? kIpv6 : kIpv4);
    Ends ends{.peer = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff},
              .own = {},
              .peer_port = big16(udp),
              .own_port = big16(udp + 2)};
    ends.own = ends.peer;
    const std::size_t length = v6 ? 16 : 4;
    std::copy_n(udp - 2 * length, length, ends.peer.end() - static_cast<std::ptrdiff_t>(length));
    std::copy_n(udp - length, length, ends.own.end() - static_cast<std::ptrdiff_t>(length));
    return ends;
}

std::uint16_t sum_of(std::span<const std::uint8_t> bytes) {
    // Sums are the same in either byte order up to a swap at the end, so words of the machine's order are added.
    std::uint64_t sum = 0;
    std::size_t at = 0;
    for (; at + 4 <= bytes.size(); at += 4) {
        std::uint32_t word = 0;
        std::memcpy(&word, bytes.data() + at, 4);
        sum += word;
    }
    std::uint32_t rest = 0;
    if (at != bytes.size())
        std::memcpy(&rest, bytes.data() + at, bytes.size() - at);  // an empty span may have no address
    const std::uint16_t folded = fold(sum + rest);
    return std::endian::native == std::endian::little ? std::byteswap(folded) : folded;
}

std::uint16_t sum_with(std::uint16_t first, std::size_t first_length, std::uint16_t second) {
    if (first_length % 2 != 0) second = std::byteswap(second);
    return fold(std::uint64_t{first} + second);
}

void turn_around(std::span<std::uint8_t> headers, bool v6, std::uint16_t payload_length, std::uint16_t payload_sum) {
    std::uint8_t* ethernet = headers.data();
    std::swap_ranges(ethernet, ethernet + 6, ethernet + 6);
    std::uint8_t* ip = ethernet + kEthernet;
    std::uint8_t* udp = ip + (v6 ? kIpv6 : kIpv4);
    std::swap_ranges(udp, udp + 2, udp + 2);
    const auto udp_length = static_cast<std::uint16_t>(kUdp + payload_length);
    put16(udp + 4, udp_length);
    put16(udp + 6, 0);
    if (v6) {
        const std::uint8_t first[8] = {0x60, 0, 0, 0, 0, 0, kProtocolUdp, kHops};
        std::memcpy(ip, first, sizeof first);
        put16(ip + 4, udp_length);
        std::swap_ranges(ip + 8, ip + 24, ip + 24);
        put16(udp + 6, udp_checksum({ip + 8, 32}, {udp, kUdp}, udp_length, payload_sum));
        return;
    }
    // No identification is needed where the datagram may not be cut.
    const std::uint8_t first[12] = {0x45, 0, 0, 0, 0, 0, 0x40, 0, kHops, kProtocolUdp, 0, 0};
    std::memcpy(ip, first, sizeof first);
    put16(ip + 2, static_cast<std::uint16_t>(kIpv4 + udp_length));
    std::swap_ranges(ip + 12, ip + 16, ip + 16);
    put16(ip + 10, static_cast<std::uint16_t>(~sum_of({ip, kIpv4})));
    put16(udp + 6, udp_checksum({ip + 12, 8}, {udp, kUdp}, udp_length, payload_sum));
}

}  // namespace chainio::net
