#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/net/packet.h"
#include "tests/support/properties.h"

namespace chainio::net {
namespace {

using Bytes = std::vector<std::uint8_t>;

// As RFC 1071 says it, byte by byte.
std::uint16_t plain_sum(const Bytes& bytes) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); i++) {
        sum += i % 2 == 0 ? bytes[i] * 256u : bytes[i];
        if (sum > 0xffff) sum -= 0xffff;
    }
    return static_cast<std::uint16_t>(sum);
}

// 0 and 0xffff are the same number in ones' complement.
std::uint16_t normal(std::uint16_t sum) { return sum == 0xffff ? 0 : sum; }

void put16(Bytes& at, std::size_t where, std::size_t value) {
    at[where] = static_cast<std::uint8_t>(value >> 8);
    at[where + 1] = static_cast<std::uint8_t>(value);
}

Bytes packet_of(bool v6, const Bytes& payload) {
    const std::size_t header = kEthernet + (v6 ? kIpv6 : kIpv4) + kUdp;
    Bytes packet(header);
    for (std::size_t i = 0; i < header; i++) packet[i] = static_cast<std::uint8_t>(i * 7 + 1);
    put16(packet, 12, v6 ? 0x86dd : 0x0800);
    const std::size_t udp = kUdp + payload.size();
    if (v6) {
        packet[14] = 0x60;
        put16(packet, 18, udp);
        packet[20] = 17;
    } else {
        packet[14] = 0x45;
        put16(packet, 16, kIpv4 + udp);
        put16(packet, 20, 0x4000);
        packet[23] = 17;
    }
    put16(packet, header - 4, udp);
    packet.insert(packet.end(), payload.begin(), payload.end());
    return packet;
}

Bytes stretch(const Bytes& bytes, std::size_t at, std::size_t length) {
    return {bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(at + length)};
}

// The sum over pseudo-header, UDP header and payload of a right packet is all ones.
std::uint16_t udp_verdict(const Bytes& packet, bool v6) {
    const std::size_t addresses = kEthernet + (v6 ? 8 : 12), size = v6 ? 32 : 8;
    const std::size_t udp = kEthernet + (v6 ? kIpv6 : kIpv4);
    Bytes all = stretch(packet, addresses, size);
    const std::size_t length = packet.size() - udp;
    all.insert(all.end(), {0, 17, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)});
    const Bytes rest = stretch(packet, udp, length);
    all.insert(all.end(), rest.begin(), rest.end());
    return plain_sum(all);
}

TEST(Sum, IsThatOfTheStandardAndCanBePutTogether) {
    EXPECT_TRUE(rc::check("sum", [](const Bytes& first, const Bytes& second) {
        RC_ASSERT(normal(sum_of(first)) == normal(plain_sum(first)));
        Bytes both = first;
        both.insert(both.end(), second.begin(), second.end());
        RC_ASSERT(normal(sum_with(sum_of(first), first.size(), sum_of(second))) == normal(plain_sum(both)));
    }));
}

TEST(TurnAround, ExchangesTheEndsWithFullSums) {
    EXPECT_TRUE(rc::check("reply", [](bool v6, const Bytes& request, const Bytes& answer) {
        Bytes packet = packet_of(v6, request);
        const std::size_t header = packet.size() - request.size();
        const Bytes before = packet;
        packet.resize(header);
        packet.insert(packet.end(), answer.begin(), answer.end());
        turn_around({packet.data(), header}, v6, static_cast<std::uint16_t>(answer.size()), sum_of(answer));
        const auto parsed = parse(packet, packet.size());
        RC_ASSERT(parsed.has_value());
        RC_ASSERT(parsed->payload_length == answer.size());
        RC_ASSERT(parsed->bytes == header);
        RC_ASSERT(udp_verdict(packet, v6) == 0xffff);
        RC_ASSERT(packet[header - 2] != 0 || packet[header - 1] != 0);
        if (!v6) RC_ASSERT(plain_sum(stretch(packet, kEthernet, kIpv4)) == 0xffff);
        RC_ASSERT(stretch(packet, 0, 6) == stretch(before, 6, 6));
        RC_ASSERT(stretch(packet, 6, 6) == stretch(before, 0, 6));
        const std::size_t at = kEthernet + (v6 ? 8 : 12), size = v6 ? 16 : 4;
        RC_ASSERT(stretch(packet, at, size) == stretch(before, at + size, size));
        RC_ASSERT(stretch(packet, at + size, size) == stretch(before, at, size));
        RC_ASSERT(stretch(packet, header - 8, 2) == stretch(before, header - 6, 2));
        RC_ASSERT(stretch(packet, header - 6, 2) == stretch(before, header - 8, 2));
    }));
}

// A sum of zero is sent as 0xffff: over IPv6 a field of 0 is an error, over IPv4 it says that nobody summed.
TEST(TurnAround, NeverWritesThatThereIsNoSum) {
    for (const bool v6 : {false, true}) {
        unsigned met = 0;
        for (unsigned value = 0; value < 65536; value++) {
            const Bytes payload{static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
            Bytes packet = packet_of(v6, payload);
            const std::size_t header = packet.size() - 2;
            turn_around({packet.data(), header}, v6, 2, sum_of(payload));
            ASSERT_FALSE(packet[header - 2] == 0 && packet[header - 1] == 0) << value;
            met += packet[header - 2] == 0xff && packet[header - 1] == 0xff;
        }
        EXPECT_GE(met, 1u);
    }
}

TEST(Parse, RefusesWhatIsCutOrChanged) {
    for (const bool v6 : {false, true}) {
        const Bytes whole = packet_of(v6, {1, 2, 3, 4, 5});
        const std::size_t header = whole.size() - 5;
        ASSERT_TRUE(parse(whole, whole.size()));
        EXPECT_TRUE(parse(std::span(whole).first(header), whole.size())) << "the payload may lie in another frame";
        for (std::size_t size = 0; size < whole.size(); size++)
            EXPECT_FALSE(parse(std::span(whole).first(size), size)) << size;
        const auto changed = [&](std::size_t at, std::uint8_t to) {
            Bytes other = whole;
            other[at] = to;
            return parse(other, other.size()).has_value();
        };
        EXPECT_FALSE(changed(12, 0x81));
        EXPECT_FALSE(changed(14, v6 ? 0x50 : 0x46));
        EXPECT_FALSE(changed(v6 ? 20 : 23, 6));
        EXPECT_FALSE(changed(header - 3, 200));
        EXPECT_FALSE(changed(header - 3, 7));
        EXPECT_FALSE(changed(header - 3, kUdp + 4)) << "what stands behind the datagram is nobody's";
        if (!v6) EXPECT_FALSE(changed(20, 0x20)) << "a fragment";
    }
}

// Both lengths say the same, and it is less than the header of UDP has.
TEST(Parse, RefusesADatagramThatIsShorterThanItsHeader) {
    for (const bool v6 : {false, true}) {
        Bytes packet = packet_of(v6, {1, 2, 3, 4, 5});
        const std::size_t header = packet.size() - 5;
        for (std::uint8_t length = 0; length <= kUdp; length++) {
            packet[header - 3] = length;
            packet[v6 ? 19 : 17] = static_cast<std::uint8_t>(length + (v6 ? 0 : kIpv4));
            const auto found = parse(packet, packet.size());
            ASSERT_EQ(found.has_value(), length == kUdp) << unsigned{length};
            if (found) EXPECT_EQ(found->payload_length, 0u);
        }
    }
}

// Whatever the bytes, what is found lies within them.
TEST(Parse, StaysWithinTheFrame) {
    EXPECT_TRUE(rc::check("bytes", [](Bytes bytes, bool v6, std::uint8_t at, std::uint8_t value) {
        if (bytes.size() % 2 == 0) {
            bytes = packet_of(v6, bytes);
            bytes[at % bytes.size()] = value;
        }
        const auto found = parse(bytes, bytes.size());
        if (found) RC_ASSERT(found->bytes + std::size_t{found->payload_length} <= bytes.size());
    }));
}

}  // namespace
}  // namespace chainio::net
