// Files that programs open for writing only: nobody reads them by that.
#include <fcntl.h>

#include <algorithm>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

TEST(Written, OpeningsForWritingOnlyAreShownToNoChain) {
    const Folder folder;
    const std::string path = folder.write("a.col", std::string(std::size_t{32} * kPage, 'x'));
    ServerOptions options;
    options.explain = true;
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain head on open(columns) as c { prefetch c.file at 0 for 64KiB }
)",
                              options));
    Poster poster(running.region(), 0);
    drop_pages(path);
    for (const int flags : {O_WRONLY, O_WRONLY | O_DIRECT}) ASSERT_TRUE(poster.opened(0, path, flags));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    EXPECT_EQ(running.chain().events, 0u);
    EXPECT_EQ(running.stats().classes[0].opened, 2u);
    ASSERT_TRUE(poster.opened(0, path, O_RDWR));
    EXPECT_TRUE(happens([&] { return running.chain().events == 1; })) << "who may read as well may do so";
    running.stop();
    const auto explained = running.server().report().explained;
    ASSERT_EQ(explained.size(), 2u);
    EXPECT_EQ(explained[0].why, "");
    EXPECT_EQ(explained[1].why, "it is opened for writing only");
    EXPECT_EQ(explained[1].times, 2u);
}

// As a database writes a table past the page cache, and reads it through that.
TEST(Written, WhoWritesPastThePageCacheTakesNothingFromWhoReads) {
    const Folder folder;
    const std::string bytes(8 * std::size_t{kPage}, 'x');
    const std::string index = folder.write("a.ndx", bytes), records = folder.write("a.dat", bytes);
    drop_pages(records);
    Running running(server_of(R"(
app records { files index = "*.ndx"  files records = "*.dat" }
chain follow on read(index) as r { prefetch records.sibling(r, ".dat") at r.offset for 4096 }
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, index));
    ASSERT_TRUE(poster.opened(1, records, O_WRONLY | O_DIRECT));
    ASSERT_TRUE(poster.read(0, index, 0, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().fetches + running.chain().dropped == 1; }));
    running.stop();
    EXPECT_EQ(running.chain().fetches, 1u);
    const auto notes = running.server().report().notes;
    EXPECT_EQ(std::ranges::count_if(notes, [](const std::string& note) { return note.contains("O_DIRECT"); }), 0);
}

// Of somebody who reads the file past the page cache already.
TEST(Written, WhoWritesThroughThePageCacheSaysNothingOfWhoReads) {
    const Folder folder;
    const std::string bytes(8 * std::size_t{kPage}, 'x');
    const std::string index = folder.write("a.ndx", bytes), records = folder.write("a.dat", bytes);
    Running running(server_of(R"(
app records { files index = "*.ndx"  files records = "*.dat" }
chain follow on read(index) as r { prefetch records.sibling(r, ".dat") at r.offset for 4096 }
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, index));
    ASSERT_TRUE(poster.opened(1, records, O_DIRECT));
    ASSERT_TRUE(poster.opened(1, records, O_WRONLY));
    ASSERT_TRUE(poster.read(0, index, 0, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().fetches + running.chain().dropped == 1; }));
    running.stop();
    EXPECT_EQ(running.chain().dropped, 1u);
}

}  // namespace
}  // namespace chainio::shadow::test
