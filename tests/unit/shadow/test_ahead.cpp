#include <gtest/gtest.h>

#include "runtime/shadow/ahead.h"

namespace chainio::shadow::test {
namespace {

constexpr std::uint64_t kReadAhead = 128 * 1024;

// The server sleeps through the end of a fetch unless the fetch presses.
TEST(Ahead, AFetchPressesThatGoesOnOnlyWithTheServer) {
    EXPECT_FALSE(Ahead::presses(false, kReadAhead, 4096));
    EXPECT_FALSE(Ahead::presses(false, kReadAhead, 16 * 1024)) << "the kernel reads it in one go";
    EXPECT_TRUE(Ahead::presses(false, kReadAhead, 1 << 20)) << "in several";
    EXPECT_TRUE(Ahead::presses(true, kReadAhead, 4096))
        << "nobody is served before the server has looked at the frames";
}

TEST(Ahead, WhereTheKernelReadsNothingAheadAFetchOfTwoPagesPresses) {
    EXPECT_FALSE(Ahead::presses(false, 0, 4096));
    EXPECT_TRUE(Ahead::presses(false, 0, 4097));
    EXPECT_TRUE(Ahead::presses(false, 0, 16 * 1024));
}

}  // namespace
}  // namespace chainio::shadow::test
