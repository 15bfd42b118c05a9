// The options of a server: what is at a limit is taken, and what is one byte, or one fetch, beyond it is not.
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

bool good(const std::function<void(ServerOptions&)>& change) {
    ServerOptions options;
    change(options);
    return wrong_options(options).empty();
}

TEST(Options, OfFetchesInFlightThereIsOneToAThousand) {
    const auto in_flight = [](unsigned n) { return good([n](ServerOptions& o) { o.in_flight = n; }); };
    EXPECT_FALSE(in_flight(0));
    EXPECT_TRUE(in_flight(1));
    EXPECT_TRUE(in_flight(1024));
    EXPECT_FALSE(in_flight(1025));
}

TEST(Options, WhatIsFetchedAheadHasRoomForOneFetch) {
    const auto ahead = [](std::uint64_t bytes) { return good([bytes](ServerOptions& o) { o.ahead_bytes = bytes; }); };
    EXPECT_FALSE(ahead(256 * 1024 - 1));
    EXPECT_TRUE(ahead(256 * 1024));
    EXPECT_TRUE(ahead(16 * kGiB));
    EXPECT_FALSE(ahead(16 * kGiB + 1));
}

TEST(Options, MemoryForBlocksIsNeitherTooLittleNorTooMuch) {
    const auto memory = [](std::uint64_t bytes) { return good([bytes](ServerOptions& o) { o.memory_bytes = bytes; }); };
    EXPECT_FALSE(memory(256 * 1024 - 1));
    EXPECT_TRUE(memory(256 * 1024));
    EXPECT_TRUE(memory(16 * kGiB));
    EXPECT_FALSE(memory(16 * kGiB + 1));
}

TEST(Options, MemoryThatIsServedFromIsNoneOrOfUse) {
    const auto served = [](std::uint64_t bytes) { return good([bytes](ServerOptions& o) { o.served_bytes = bytes; }); };
    EXPECT_TRUE(served(0));
    EXPECT_FALSE(served(1));
    EXPECT_FALSE(served((1 << 20) - 1));
    EXPECT_TRUE(served(1 << 20));
    EXPECT_TRUE(served(64 * kGiB));
    EXPECT_FALSE(served(64 * kGiB + 1));
}

}  // namespace
}  // namespace chainio::shadow::test
