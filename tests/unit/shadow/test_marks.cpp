// Places of files that chains know again.
#include "runtime/shadow/marks.h"

#include <map>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr std::uint32_t kPage = 4096;

TEST(Marks, ArePlacesOfFiles) {
    Marks marks;
    EXPECT_EQ(marks.of(1, 0), 0u);
    marks.set(1, 0, 7);
    marks.set(2, 0, 8);
    marks.set(1, kPage, 9);
    EXPECT_EQ(marks.of(1, 0), 7u);
    EXPECT_EQ(marks.of(2, 0), 8u);
    EXPECT_EQ(marks.of(1, kPage), 9u);
    EXPECT_EQ(marks.of(2, kPage), 0u);
    marks.set(1, 0, 10);
    EXPECT_EQ(marks.of(1, 0), 10u);
    marks.set(1, 0, 0);
    EXPECT_EQ(marks.of(1, 0), 0u);
}

TEST(Marks, OfAFileAreThoseOfPlacesWithoutOne) {
    Marks marks;
    marks.set(1, kPage, 9);
    marks.set(1, CIO_MARK_FILE, 5);
    EXPECT_EQ(marks.of(1, 0), 5u);
    EXPECT_EQ(marks.of(1, kPage), 9u);
    EXPECT_EQ(marks.of(2, 0), 0u);
}

TEST(Marks, AreForgottenWhenTheTableIsFullAndNeverMixedUp) {
    Marks marks;
    constexpr std::uint64_t kMany = 4 * Marks::kSets * Marks::kWays;
    for (std::uint64_t i = 0; i < kMany; i++) marks.set(i % 3, i * kPage, i + 1);
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < kMany; i++) {
        const std::uint64_t mark = marks.of(i % 3, i * kPage);
        ASSERT_TRUE(mark == 0 || mark == i + 1) << i;
        kept += mark != 0;
    }
    EXPECT_LE(kept, Marks::kSets * Marks::kWays);
    EXPECT_GT(kept, Marks::kSets * Marks::kWays * 9 / 10);
    EXPECT_EQ(marks.of((kMany - 1) % 3, (kMany - 1) * kPage), kMany);
}

TEST(Marks, AsFewAsThereIsRoomForAreHardlyForgotten) {
    Marks marks;
    constexpr std::uint64_t kSome = Marks::kSets;
    for (std::uint64_t i = 0; i < kSome; i++) marks.set(1, i * kPage, i + 1);
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < kSome; i++) kept += marks.of(1, i * kPage) != 0;
    EXPECT_GT(kept, kSome * 99 / 100);
}

// A root page names a page, whose mark is a number that a chain finds on page 20; where such a page is read, that much
// is fetched behind it.
constexpr const char* kMarked = R"(
app marked { files data = "*.idx" }
record Root { child: u32le  passes_on: u8 }
record Number { value: u64le }
chain number(db: file data, at_page: u64) -> u64 { step s(n: Number at at_page * 4096 for 8) { return n.value } }
chain follow on read(data) as r {
  let page = r.record(Root)
  if r.offset == 0 { mark r.file at page.child * 4096 via number(r.file, 20) }
  if r.mark != 0 && page.passes_on == 1 { mark r.file at page.child * 4096 with r.mark + 1 }
  if r.mark != 0 && page.passes_on == 0 { prefetch r.file at r.offset + 4096 for r.mark * 4096 }
}
)";

std::string page_of(std::uint32_t child, bool passes_on) {
    std::string page(kPage, 0);
    page[0] = static_cast<char>(child);
    page[4] = passes_on ? 1 : 0;
    return page;
}

std::string marked_file(const Folder& folder) {
    std::string bytes(std::size_t{32} * kPage, 0);
    bytes.replace(0, kPage, page_of(4, false));
    bytes.replace(std::size_t{4} * kPage, kPage, page_of(8, true));
    bytes[std::size_t{20} * kPage] = 5;
    return folder.write("a.idx", bytes);
}

TEST(Marks, AreWhatAReadIsKnownAgainBy) {
    const Folder folder;
    const std::string path = marked_file(folder);
    Running running(server_of(kMarked));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    // All at once, as of a program that has done much until the server came up: each is known by the one before.
    ASSERT_TRUE(poster.read(0, path, 8 * kPage, kPage));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(poster.read(0, path, 4 * kPage, kPage));
    ASSERT_TRUE(poster.read(0, path, 8 * kPage, kPage));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    const shim::ChainStats& chain = running.chain();
    EXPECT_EQ(chain.events, 4u);
    EXPECT_EQ(chain.failed, 0u);
    EXPECT_EQ(chain.walks, 0u);  // none of which anything is expected
    EXPECT_EQ(chain.fetches + chain.cached, 1u);
    EXPECT_EQ(chain.fetched_bytes % kPage, 0u);
}

TEST(Marks, OfWalksComeAlsoFromTheDisk) {
    const Folder folder;
    const std::string path = marked_file(folder);
    Running running(server_of(kMarked));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(happens([&] {
        if (pages_in_memory(path, 9, 6) == 6) return true;
        if (!poster.taken()) return false;
        return !poster.read(0, path, 0, kPage) || !poster.read(0, path, 4 * kPage, kPage) ||
               !poster.read(0, path, 8 * kPage, kPage);
    }));
    EXPECT_EQ(pages_in_memory(path, 9, 6), 6u);
    running.stop();
    EXPECT_EQ(running.chain().failed, 0u);
}

TEST(Marks, OfAnotherFileAreNotItsOwn) {
    const Folder folder;
    const std::string path = marked_file(folder);
    const std::string other = folder.write("b.idx", std::string(std::size_t{32} * kPage, 0));
    Running running(server_of(kMarked));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.opened(0, other));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(poster.read(0, other, 4 * kPage, kPage));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    EXPECT_EQ(running.chain().fetches + running.chain().cached, 0u);
}

}  // namespace
}  // namespace chainio::shadow::test
