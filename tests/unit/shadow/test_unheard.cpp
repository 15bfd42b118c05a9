// How many reads may be under way of which nobody hears.
#include "runtime/shadow/unheard.h"

#include <gtest/gtest.h>

#include <deque>

namespace chainio::shadow::test {
namespace {

// Of `reads` that are begun one behind the other and come at once, how many are not heard of.
unsigned unheard_of(unsigned most, unsigned reads) {
    Unheard unheard(most);
    unsigned found = 0;
    for (unsigned i = 0; i < reads; i++) {
        if (unheard.may(0)) {
            unheard.begun();
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
    unheard.begun();
    const auto first = unheard.mark();
    unheard.begun();
    const auto second = unheard.mark();
    unheard.begun();
    unheard.come(second);
    EXPECT_EQ(unheard.count(), 1u);
    unheard.come(first);
    EXPECT_EQ(unheard.count(), 1u);
}

// However many are wanted and however slow the disk is: never more than may be, and never none that could be heard of.
TEST(Unheard, NoMoreAreUnderWayThanMayBe) {
    for (unsigned most = 1; most <= 256; most++) {
        Unheard unheard(most);
        std::deque<std::uint64_t> heard;
        for (unsigned i = 0; i < 1000; i++) {
            const auto of_those = static_cast<unsigned>(heard.size());
            if (of_those + unheard.count() < most) {
                if (unheard.may(of_those))
                    unheard.begun();
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

}  // namespace
}  // namespace chainio::shadow::test
