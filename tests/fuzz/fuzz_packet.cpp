// Any bytes as a frame that AF_XDP hands over: what is taken of it lies within it, and is what the XDP program
// (bpf-templates/chainio_xdp.bpf.c) takes for a datagram. A reply that is made of it has right sums, added up here in
// another way, and is a datagram back. The first byte says how much of the packet lies in further frames, the second
// where the payload is summed in two parts.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime/net/packet.h"

namespace {

using namespace chainio;
using Bytes = std::span<const std::uint8_t>;

void demand(bool holds) {
    if (!holds) std::abort();
}

unsigned big(Bytes bytes, std::size_t at) { return bytes[at] * 256U + bytes[at + 1]; }

// As RFC 1071 says it: word by word, the last byte with a zero behind it.
unsigned summed(Bytes bytes, unsigned sum = 0) {
    for (std::size_t i = 0; i < bytes.size(); i++) {
        sum += i % 2 == 0 ? bytes[i] * 256U : bytes[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

// What the XDP program takes for a datagram. Of one that it hands over it also wants to know that the destination is
// ours, that who sent it can be answered, and that the sum of an IPv4 header is right and one of UDP over IPv6 there.
bool is_ipv4(Bytes frame, std::size_t length) {
    if (frame.size() < 42 || frame[14] != 0x45 || frame[23] != 17 || (big(frame, 20) & 0xbfff) != 0) return false;
    const unsigned total = big(frame, 16), udp = big(frame, 38);
    return total + 14 <= length && udp >= 8 && udp + 20 == total;
}

bool is_ipv6(Bytes frame, std::size_t length) {
    if (frame.size() < 62 || frame[14] >> 4 != 6 || frame[20] != 17) return false;
    const unsigned payload = big(frame, 18);
    return payload + 54 <= length && payload >= 8 && payload == big(frame, 58);
}

bool is_datagram(Bytes frame, std::size_t length) {
    if (frame.size() < 14) return false;
    const unsigned type = big(frame, 12);
    return (type == 0x0800 && is_ipv4(frame, length)) || (type == 0x86dd && is_ipv6(frame, length));
}

unsigned udp_sum(Bytes packet, bool v6) {
    const std::size_t ip = 14, udp = v6 ? 54 : 34;
    const Bytes addresses = v6 ? packet.subspan(ip + 8, 32) : packet.subspan(ip + 12, 8);
    const auto length = static_cast<unsigned>(packet.size() - udp);
    return summed(packet.subspan(udp), summed(addresses, 17 + length));
}

void turn_and_check(Bytes frame, const net::Headers& found, Bytes payload, std::size_t cut) {
    std::vector<std::uint8_t> reply(frame.begin(), frame.begin() + found.bytes);
    const net::Ends before = net::ends_of(reply, found.v6);
    demand(before.own_port == found.destination_port);
    const std::uint16_t sum = net::sum_with(net::sum_of(payload.first(cut)), cut, net::sum_of(payload.subspan(cut)));
    demand(sum % 0xffff == summed(payload) % 0xffff);
    net::turn_around(reply, found.v6, static_cast<std::uint16_t>(payload.size()), sum);
    reply.insert(reply.end(), payload.begin(), payload.end());
    demand(udp_sum(reply, found.v6) == 0xffff && big(reply, found.bytes - 2) != 0);
    demand(found.v6 || summed(Bytes(reply).subspan(14, 20)) == 0xffff);
    demand(std::equal(reply.begin(), reply.begin() + 6, frame.begin() + 6) &&
           std::equal(reply.begin() + 6, reply.begin() + 12, frame.begin()));
    const auto again = net::parse(reply, reply.size());
    demand(again && again->v6 == found.v6 && again->payload_length == payload.size() &&
           again->destination_port == before.peer_port);
    const net::Ends after = net::ends_of(reply, found.v6);
    demand(after.peer == before.own && after.own == before.peer && after.own_port == before.peer_port &&
           after.peer_port == before.own_port);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::size_t length = size - 2, in_frame = length - length * (data[0] % 4) / 4, cut = data[1];
    // Of its own size, so that a byte behind it is nobody's.
    const auto memory = std::make_unique<std::uint8_t[]>(in_frame);
    std::copy_n(data + 2, in_frame, memory.get());
    const Bytes frame(memory.get(), in_frame), rest(data + 2 + in_frame, length - in_frame);
    const auto found = net::parse(frame, length);
    demand(found.has_value() == is_datagram(frame, length));
    if (!found) return 0;
    demand(found->bytes <= frame.size() && std::size_t{found->bytes} + found->payload_length <= length);
    std::vector<std::uint8_t> payload(frame.begin() + found->bytes, frame.end());
    payload.insert(payload.end(), rest.begin(), rest.end());
    payload.resize(found->payload_length);
    turn_and_check(frame, *found, payload, std::min(cut, payload.size()));
    return 0;
}
