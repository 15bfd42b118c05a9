// What has come of what was fetched at a chain's events, and of its latest ones together.
#include "runtime/shadow/turns.h"

#include <gtest/gtest.h>

namespace chainio::shadow {
namespace {

TEST(Turns, TellAnEventsShare) {
    Turns turns;
    EXPECT_EQ(turns.wasted(1), 0u) << "of which nothing is known";
    turns.fetched(1, 10);
    EXPECT_EQ(turns.wasted(1), 0u);
    for (int i = 0; i < 8; i++) turns.useful(1);
    EXPECT_EQ(turns.wasted(1), 4u) << "8 to 2";
    EXPECT_EQ(turns.wasted(1), 4u);
    turns.fetched(2, 4);
    turns.useful(2);
    EXPECT_EQ(turns.wasted(2) + turns.wasted(2) + turns.wasted(2), 1u) << "1 to 3";
    turns.fetched(3, 1000);
    for (int i = 0; i < 999; i++) turns.useful(3);
    EXPECT_EQ(turns.wasted(3), Turns::kMost);
    turns.fetched(1 + Turns::kTurns, 5);
    turns.useful(1);
    EXPECT_EQ(turns.wasted(1), 0u) << "it is too long ago";
    turns.useful(1 + Turns::kTurns);
    for (int i = 0; i < 3; i++) EXPECT_EQ(turns.wasted(1 + Turns::kTurns), 0u);
    EXPECT_EQ(turns.wasted(1 + Turns::kTurns), 1u) << "1 to 4";
    EXPECT_EQ(turns.wasted(0), 0u);
}

TEST(Turns, AnEventHasAShareOnceAllOfItIsKnown) {
    Turns turns;
    const auto share = [&] { return turns.shares().useful(); };
    turns.fetched(1, 4);
    for (int i = 0; i < 4; i++) turns.useful(1);
    EXPECT_EQ(share(), 0) << "more may be fetched";
    turns.fetched(2, 4);
    EXPECT_EQ(share(), 1);
    turns.useful(2);
    turns.vain(2);
    turns.wasted(2);
    turns.fetched(3, 2);
    EXPECT_EQ(share(), 1) << "nothing is known of the fourth";
    turns.redeemed(2);
    turns.useful(2);
    turns.wasted(2);
    EXPECT_EQ(share(), 6 / 8.0);
    turns.wasted(2);
    EXPECT_EQ(share(), 6 / 8.0) << "it counts once";
    turns.wasted(3);
    turns.fetched(3 + Turns::kTurns, 1);
    EXPECT_EQ(share(), 6 / 9.0) << "what is too long ago counts with what is known";
    turns.wasted(3);
    EXPECT_EQ(share(), 6 / 10.0);
    turns.begin_anew(3 + Turns::kTurns);
    EXPECT_EQ(share(), 0);
    turns.wasted(3);
    EXPECT_EQ(share(), 0);
    turns.useful(3 + Turns::kTurns);
    turns.fetched(4 + Turns::kTurns, 1);
    EXPECT_EQ(share(), 1);
}

TEST(Shares, AreThoseOfTheLatestGroups) {
    Shares shares;
    for (unsigned i = 0; i < Shares::kLeast; i++) shares.add(1, 1);
    shares.add(100, 0);
    EXPECT_EQ(shares.useful(), Shares::kLeast / (Shares::kLeast + 100.0));
    for (unsigned i = 2; i < Shares::kGroups; i++) shares.add(100, 0);
    EXPECT_GT(shares.useful(), 0) << "small events are one group";
    shares.add(100, 0);
    EXPECT_EQ(shares.useful(), 0);
    shares.clear();
    shares.add(4, 3);
    EXPECT_EQ(shares.useful(), 0.75);
}

}  // namespace
}  // namespace chainio::shadow
