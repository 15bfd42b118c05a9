// Whether a thread that waits looks on for a moment before it sleeps.
#include <gtest/gtest.h>

#include "runtime/ring/spinning.h"

namespace chainio::ring::test {
namespace {

// Of `turns` times, of which one in `one_in` finds something (0: none), how often it looks on.
unsigned looks(Spinning& spinning, unsigned turns, unsigned one_in) {
    unsigned looked = 0;
    for (unsigned i = 0; i < turns; i++) {
        if (!spinning.begins()) continue;
        looked++;
        if (one_in != 0 && looked % one_in == 0) spinning.found();
        spinning.ended();
    }
    return looked;
}

TEST(Spinning, GoesOnWhereItPays) {
    Spinning spinning;
    EXPECT_EQ(looks(spinning, 1000, 1), 1000u);
    EXPECT_EQ(looks(spinning, 1000, 2), 1000u);
    EXPECT_EQ(looks(spinning, 1000, 3), 1000u);
}

TEST(Spinning, IsTriedNowAndThenWhereItDoesNot) {
    Spinning spinning;
    looks(spinning, 100, 0);
    EXPECT_EQ(looks(spinning, 1600, 0), 1600 / Spinning::kTry);
    EXPECT_LT(looks(spinning, 1600, 8), 400u);
}

TEST(Spinning, ComesBackQuickly) {
    Spinning spinning;
    looks(spinning, 100, 0);
    looks(spinning, 2 * Spinning::kTry, 1);
    EXPECT_EQ(looks(spinning, 1000, 1), 1000u);
}

}  // namespace
}  // namespace chainio::ring::test
