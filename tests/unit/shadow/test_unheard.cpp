// How many reads may be under way of which nobody hears.
#include "runtime/shadow/unheard.h"

#include <gtest/gtest.h>

#include <deque>

namespace chainio::shadow::test {
namespace {

constexpr std::uint64_t kShort = 4096;

// Of `reads` that are begun one behind the other and come at once, how many are not heard of.
unsigned unheard_of(unsigned most, unsigned reads) {
    Unheard unheard(most);
    unsigned found = 0;
    for (unsigned i = 0; i < reads; i++) {
        if (unheard.may(0, kShort)) {
            unheard.begun(kShort);
            found++;
        } else {
            unheard.come(unheard.mark());
            EXPECT_EQ(unheard.count(), 0u) << "those before it have come";
        }
    }
    return found;
}

TEST(Unheard, OneInSixteenIsHeardOf) { EXPECT_EQ(unheard_of(128, 1600), 1500u); }

TEST(Unheard, WhereFewMayBeUnderWayMoreAreHeardOf) {
    EXPECT_EQ(unheard_of(1, 100), 0u);
    EXPECT_EQ(unheard_of(3, 100), 0u);
    EXPECT_EQ(unheard_of(4, 100), 50u);
    EXPECT_EQ(unheard_of(32, 90), 80u);
}

TEST(Unheard, ReadsThatComeInAnotherOrderCountThoseBeforeThem) {
    Unheard unheard(128);
    unheard.begun(kShort);
    const auto first = unheard.mark();
    unheard.begun(kShort);
    const auto second = unheard.mark();
    unheard.begun(kShort);
    unheard.come(second);
    EXPECT_EQ(unheard.count(), 1u);
    unheard.come(first);
    EXPECT_EQ(unheard.count(), 1u);
}

// Else nobody would hear for long that there is room for more.
TEST(Unheard, OfLongReadsMoreAreHeardOf) {
    constexpr std::uint64_t kMost = Unheard::kBytesInARow;
    Unheard unheard(128);
    EXPECT_FALSE(unheard.may(0, kMost + 1));
    ASSERT_TRUE(unheard.may(0, kMost));
    unheard.begun(kMost - kShort);
    EXPECT_FALSE(unheard.may(0, 2 * kShort));
    ASSERT_TRUE(unheard.may(0, kShort));
    unheard.begun(kShort);
    EXPECT_EQ(unheard.bytes(), kMost);
    const auto mark = unheard.mark();
    ASSERT_TRUE(unheard.may(1, kShort));
    unheard.begun(kShort);
    unheard.come(mark);
    EXPECT_EQ(unheard.bytes(), kShort);
}

// However many are wanted and however slow the disk is: never more than may be, and never none that could be heard of.
TEST(Unheard, NoMoreAreUnderWayThanMayBe) {
    for (unsigned most = 1; most <= 256; most++) {
        Unheard unheard(most);
        std::deque<Unheard::Begun> heard;
        for (unsigned i = 0; i < 1000; i++) {
            const auto of_those = static_cast<unsigned>(heard.size());
            if (of_those + unheard.count() < most) {
                if (unheard.may(of_those, kShort))
                    unheard.begun(kShort);
                else
                    heard.push_back(unheard.mark());
                ASSERT_LE(heard.size() + unheard.count(), most);
            } else {
                ASSERT_FALSE(heard.empty()) << "nothing would ever say that there is room";
                unheard.come(heard.front());
                heard.pop_front();
            }
        }
    }
}

TEST(Unheard, OnePlaceIsLeftForAReadThatIsHeardOf) {
    Unheard unheard(8);
    EXPECT_TRUE(unheard.may(6, kShort));
    EXPECT_FALSE(unheard.may(7, kShort));
    unheard.begun(kShort);
    EXPECT_TRUE(unheard.may(5, kShort));
    EXPECT_FALSE(unheard.may(6, kShort));
}

}  // namespace
}  // namespace chainio::shadow::test
