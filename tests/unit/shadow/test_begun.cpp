// Fetches that the kernel is only told to begin, and where the ring reads them instead.
#include "runtime/shadow/unheard.h"
#include "tests/unit/shadow/fixture.h"
#include "tests/unit/shadow/kernel.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr std::uint32_t kNamed = 32;

// Page 0 names every other page behind it, all of which are fetched; gives how many were only begun.
unsigned begun_of_fetches() {
    std::string bytes(std::size_t{2 * kNamed + 1} * kPage, 0);
    bytes[0] = kNamed;
    std::vector<Pages> named;
    for (std::uint32_t i = 1; i <= kNamed; i++) {
        bytes[4 * i] = static_cast<char>(2 * i);
        named.push_back({2 * i, 1});
    }
    const Folder folder;
    const std::string path = folder.write("a.ptr", bytes);
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    drop_pages(path);
    const unsigned before = reads_begun;
    EXPECT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(come(path, named));
    EXPECT_TRUE(happens([&] { return running.chain().fetches == kNamed; })) << running.chain().fetches;
    running.stop();
    named.insert(named.begin(), {0, 1});  // which the server reads itself
    EXPECT_EQ(in_memory_besides(path, 2 * kNamed + 1, named), 0u);
    return reads_begun - before;
}

TEST(Begun, OneFetchInSixteenIsHeardOf) {
    EXPECT_EQ(begun_of_fetches(), kNamed * Unheard::kInARow / (Unheard::kInARow + 1));
}

TEST(Begun, WhereTheCallerWouldWaitTheRingReads) {
    const ReadsNowAre none(ReadsNow::never);
    EXPECT_EQ(begun_of_fetches(), 0u);
}

}  // namespace
}  // namespace chainio::shadow::test
