#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/net/clock.h"
#include "runtime/net/packet.h"
#include "runtime/net/path_mtu.h"

namespace chainio::net {
namespace {

constexpr std::uint64_t kSeed = 4711;
constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();

struct Paths {
    std::vector<cio_path> places = std::vector<cio_path>(CIO_PATHS);
    PathMtu mtu{places, kSeed};

    cio_path& at(const Address& peer, const Address& own) {
        cio_path wanted{};
        std::memcpy(wanted.peer, peer.data(), sizeof wanted.peer);
        std::memcpy(wanted.own, own.data(), sizeof wanted.own);
        return places[cio_path_slot(kSeed, wanted.peer, wanted.own)];
    }
};

// What the kernel says of other ways is tried by tests/e2e/services_path_mtu.py.
TEST(PathMtu, IsAskedForOnceUntilItIsTooOld) {
    for (const char* text : {"127.0.0.1", "::1"}) {
        const Address own = *address_of(text);
        Paths paths;
        if (!paths.mtu.can_ask()) GTEST_SKIP() << "no netlink socket";
        EXPECT_EQ(paths.mtu.to(own, own), kUnknown) << text;
        EXPECT_EQ(paths.mtu.asked(), 1u);
        cio_path& path = paths.at(own, own);
        EXPECT_EQ(path.version, 2u);
        EXPECT_TRUE(std::memcmp(path.peer, own.data(), own.size()) == 0);
        EXPECT_TRUE(std::memcmp(path.own, own.data(), own.size()) == 0);
        EXPECT_GT(path.expires_ns, 0u);
        path.expires_ns = std::numeric_limits<std::uint64_t>::max();
        path.mtu = 1300;
        EXPECT_EQ(paths.mtu.to(own, own), 1300u);
        EXPECT_EQ(paths.mtu.asked(), 1u);
        path.expires_ns = now_ns();
        EXPECT_EQ(paths.mtu.to(own, own), kUnknown);
        EXPECT_EQ(paths.mtu.asked(), 2u);
    }
}

TEST(PathMtu, IsOfBothAddressesWhereverTheyLie) {
    const Address own = *address_of("127.0.0.1"), peer = *address_of("127.0.0.2");
    Paths paths;
    for (cio_path& path : paths.places) {
        path.mtu = 1300;
        path.expires_ns = std::numeric_limits<std::uint64_t>::max();
    }
    EXPECT_EQ(paths.mtu.to(peer, own), kUnknown);
    EXPECT_EQ(paths.at(peer, own).mtu, kUnknown);
}

// A link's own addresses are on the link, whatever a route says.
TEST(PathMtu, IsNotAskedForOnALink) {
    Paths paths;
    EXPECT_EQ(paths.mtu.to(*address_of("fe80::1"), *address_of("fe80::2")), kUnknown);
    EXPECT_EQ(paths.mtu.asked(), 0u);
}

TEST(Ends, AreThoseOfTheHeaders) {
    std::vector<std::uint8_t> v4(kEthernet + kIpv4 + kUdp), v6(kEthernet + kIpv6 + kUdp);
    const Address peer = *address_of("fd09::1"), own = *address_of("fd09::2");
    std::ranges::copy(peer, v6.begin() + kEthernet + 8);
    std::ranges::copy(own, v6.begin() + kEthernet + 24);
    std::ranges::copy(std::initializer_list<std::uint8_t>{10, 9, 0, 1, 10, 9, 0, 2}, v4.begin() + kEthernet + 12);
    for (auto* headers : {&v4, &v6})
        std::ranges::copy(std::initializer_list<std::uint8_t>{0x80, 1, 0x1b, 0x59}, headers->end() - kUdp);
    const Ends four = ends_of(v4, false), six = ends_of(v6, true);
    EXPECT_EQ(four.peer, *address_of("10.9.0.1"));
    EXPECT_EQ(four.own, *address_of("10.9.0.2"));
    EXPECT_EQ(six.peer, peer);
    EXPECT_EQ(six.own, own);
    for (const Ends& ends : {four, six}) {
        EXPECT_EQ(ends.peer_port, 0x8001);
        EXPECT_EQ(ends.own_port, 7001);
    }
}

}  // namespace
}  // namespace chainio::net
