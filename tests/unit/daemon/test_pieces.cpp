// What has come at once is handed over in pieces, and what such a turn brings for others is not waited for again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "tools/chainio-runtime/pieces.h"
#include "tools/chainio-runtime/waits.h"

namespace chainio::runtime_tool {
namespace {

TEST(Pieces, AreSmallWhereFewAreOnTheirWayAndNeverMoreThanAQuarterOfMany) {
    const Pieces by_xdp(true), by_sockets(false);
    for (unsigned few = 0; few <= Pieces::kFew; few++) {
        EXPECT_EQ(by_xdp.size(few), Pieces::kByXdp + (few > Pieces::kSeveral ? 1 : 0)) << few;
        EXPECT_EQ(by_sockets.size(few), Pieces::kBySockets) << few;
    }
    EXPECT_EQ(by_xdp.size(64), 11u);
    EXPECT_EQ(by_xdp.size(128), 27u);
    EXPECT_EQ(by_sockets.size(64), 12u);
    EXPECT_EQ(by_sockets.size(128), 28u);
    for (const Pieces& pieces : {by_xdp, by_sockets}) {
        for (unsigned many = 33; many <= 65536; many++) {
            EXPECT_GE(pieces.size(many), pieces.size(many - 1)) << many;
            EXPECT_LE(pieces.size(many), many / 4) << many;
        }
    }
}

TEST(Pieces, AreHandedOverWhenTheyAreFull) {
    Pieces pieces(false);
    EXPECT_FALSE(pieces.is_full(0, 4));
    EXPECT_FALSE(pieces.is_full(3, 4));
    EXPECT_TRUE(pieces.is_full(1, 4));
    EXPECT_FALSE(pieces.is_full(3, 4));
    EXPECT_TRUE(pieces.is_full(9, 4));
    EXPECT_FALSE(pieces.is_full(0, 4));
    EXPECT_FALSE(pieces.is_full(1000, UINT_MAX));
}

TEST(Waits, WhatAnotherTurnHasBroughtIsNotWaitedFor) {
    metrics::Fallbacks fallbacks;
    auto ring = ring::Shared::create({.entries = 8, .cq_entries = 32, .seats = 2, .file_slots = 0}, fallbacks);
    ASSERT_TRUE(ring) << ring.error();
    auto waits = Waits::create(ring->get());
    ASSERT_TRUE(waits) << waits.error();
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    (*waits)->want(ends[0], EPOLLIN, 7);
    auto nothing = (*waits)->wait(0);
    ASSERT_TRUE(nothing) << nothing.error();
    EXPECT_TRUE(nothing->empty());
    ASSERT_EQ(write(ends[1], "x", 1), 1);
    ASSERT_EQ((*ring)->turn(1), 0);
    (*waits)->want(ends[0], EPOLLIN, 7);
    auto there = (*waits)->wait(-1);  // nothing else will ever come
    ASSERT_TRUE(there) << there.error();
    ASSERT_EQ(there->size(), 1u);
    const std::uint64_t key = (*there)[0].data.u64;  // epoll_event is packed, so that nothing can refer to it
    EXPECT_EQ(key, 7u);
    close(ends[0]);
    close(ends[1]);
}

}  // namespace
}  // namespace chainio::runtime_tool
