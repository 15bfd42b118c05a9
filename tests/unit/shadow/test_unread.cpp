// What threads have opened and not read from: chains are shown it once they know how the thread reads, or have woken.
#include "runtime/shadow/unread.h"

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr unsigned kInFile = 32;
constexpr std::uint32_t kScan = 1 << 20;

std::string file_of_pages(const Folder& folder, const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(folder.path() + "/" + name).parent_path());
    return folder.write(name, std::string(std::size_t{kInFile} * 4096, 'x'));
}

TEST(Unread, KeepsTheLatestOfAThreadUntilTheyAreReadOrClosed) {
    Unread unread(2);
    for (std::uint64_t i = 0; i < Unread::kMost + 2; i++) unread.opened(0, {1, i, static_cast<std::uint32_t>(i % 2)});
    ASSERT_EQ(unread.of(0).size(), Unread::kMost);
    EXPECT_EQ(unread.of(0).front(), (Unread::File{1, 2, 0}));
    EXPECT_TRUE(unread.of(1).empty());
    unread.forget(0, {1, 2, 0});
    EXPECT_EQ(unread.of(0).front(), (Unread::File{1, 3, 1}));
    unread.reads(0, 1);
    EXPECT_EQ(unread.of(0).size(), Unread::kMost / 2 - 1);
    EXPECT_EQ(unread.of(0).front(), (Unread::File{1, 4, 0}));
}

TEST(Unread, IsShownToChainsThatGoByHowTheThreadReads) {
    const Folder folder;
    std::vector<std::string> files;
    for (const char* name : {"a.col", "b.col", "c.col", "d.col", "e.col"}) files.push_back(file_of_pages(folder, name));
    for (const auto& path : files) drop_pages(path);
    Running running(server_of(kHeads));
    Poster scanner(running.region(), 0), other(running.region(), 1);
    ASSERT_TRUE(other.opened(0, files[3]));
    for (int i : {0, 1, 2, 3, 4}) ASSERT_TRUE(scanner.opened(0, files[static_cast<unsigned>(i)]));
    ASSERT_TRUE(scanner.closed(0, files[1]));
    ASSERT_TRUE(happens([&] { return scanner.taken() && other.taken(); }));
    ASSERT_TRUE(other.closed(0, files[4]));
    ASSERT_TRUE(happens([&] { return other.taken(); }));
    EXPECT_EQ(running.chain(1).fetches, 0u) << "nobody knows yet how it reads";
    ASSERT_TRUE(scanner.begun(0, files[0], 0, kScan));
    for (const std::string& path : {files[2], files[3]}) {
        EXPECT_TRUE(come(path, {{0, 16}}));
        EXPECT_EQ(in_memory_besides(path, kInFile, {{0, 16}}), 0u);
    }
    EXPECT_EQ(pages_in_memory(files[0], 0, kInFile), 0u) << "it is being read";
    EXPECT_EQ(pages_in_memory(files[1], 0, kInFile), 0u) << "it was closed";
    EXPECT_EQ(pages_in_memory(files[4], 0, kInFile), 0u) << "another thread has closed it";
}

TEST(Unread, IsNotShownAgainToChainsThatKnewAlready) {
    const Folder folder;
    std::vector<std::string> files;
    for (const char* name : {"a.col", "b.col", "c.col"}) files.push_back(file_of_pages(folder, name));
    Running running(server_of(kHeads));
    Poster scanner(running.region(), 0);
    ASSERT_TRUE(scanner.opened(0, files[0]));
    ASSERT_TRUE(scanner.begun(0, files[0], 0, kScan));
    for (int i : {1, 2}) ASSERT_TRUE(scanner.opened(0, files[static_cast<unsigned>(i)]));
    ASSERT_TRUE(happens([&] { return scanner.taken() && running.chain(1).events == 3; }));
    ASSERT_TRUE(scanner.begun(0, files[1], 0, kScan));
    ASSERT_TRUE(happens([&] { return scanner.taken(); }));
    EXPECT_EQ(running.chain(1).events, 3u);
}

// What is in memory tells nothing of what has not been read from.
TEST(Unread, IsKeptThroughReadsThatDoNotWait) {
    const Folder folder;
    std::vector<std::string> files;
    for (const char* name : {"a.col", "b.col", "c.col"}) files.push_back(file_of_pages(folder, name));
    for (const auto& path : files) drop_pages(path);
    Running running(server_of(kHeads));
    Poster poster(running.region(), 0);
    for (const auto& path : files) ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, files[0], 0, kScan, 2'000));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    EXPECT_EQ(pages_in_memory(files[2], 0, kInFile), 0u);
    ASSERT_TRUE(poster.read(0, files[1], 0, kScan));
    EXPECT_TRUE(come(files[2], {{0, 16}}));
    EXPECT_EQ(in_memory_besides(files[2], kInFile, {{0, 16}}), 0u);
    EXPECT_EQ(pages_in_memory(files[0], 0, kInFile), 0u) << "it has been read from";
}

TEST(Unread, IsNotShownAgainToChainsThatGoByTheFileAlone) {
    const Folder folder;
    const std::string first = file_of_pages(folder, "a.col"), second = file_of_pages(folder, "b.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r { when r.total >= 4096MiB { prefetch r.file at 0 for 4096 } }
chain tail on open(columns) as c { prefetch c.file at 4096 for 4096 }
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, first));
    ASSERT_TRUE(poster.opened(0, second));
    ASSERT_TRUE(poster.begun(0, first, 0, kScan));
    ASSERT_TRUE(happens([&] { return poster.taken() && running.chain(0).events == 1; }));
    EXPECT_EQ(running.chain(1).events, 2u);
}

// Where two threads have gone from folder to folder, one that reads as they did is believed to do so, too.
TEST(Unread, AScanIsForetoldFromItsFirstFileAndALookUpIsNot) {
    const Folder folder;
    std::vector<std::string> files;
    for (int part = 1; part <= 4; part++)
        files.push_back(file_of_pages(folder, "p_" + std::to_string(part) + "/a.col"));
    Running running(server_of(kHeads));
    Poster first(running.region(), 0), second(running.region(), 1);
    Poster third(running.region(), 2), fourth(running.region(), 3);
    for (Poster* poster : {&first, &second})
        for (int part : {0, 1}) {
            ASSERT_TRUE(poster->opened(0, files[static_cast<unsigned>(part)]));
            ASSERT_TRUE(poster->begun(0, files[static_cast<unsigned>(part)], 0, kScan));
            ASSERT_TRUE(happens([&] { return poster->taken(); }));
        }
    const std::uint64_t before = running.chain(1).events;
    ASSERT_TRUE(third.opened(0, files[0]));
    ASSERT_TRUE(third.begun(0, files[0], 0, 4096));
    ASSERT_TRUE(happens([&] { return third.taken(); }));
    EXPECT_EQ(running.chain(1).events, before + 1) << "it is shown what was opened, and nothing ahead";
    const std::uint64_t seen = running.chain(1).events;
    ASSERT_TRUE(fourth.opened(0, files[0]));
    ASSERT_TRUE(happens([&] { return running.chain(1).events == seen + 1; }));
    ASSERT_TRUE(fourth.begun(0, files[0], 0, kScan));
    ASSERT_TRUE(happens([&] { return fourth.taken(); }));
    EXPECT_TRUE(happens([&] { return running.chain(1).events > seen + 1; })) << "it is shown what comes next";
}

// Chains that found all in memory see few openings. The first read that waits has them look at those they have missed,
// also where it is one of what another chain fetches for the same files.
TEST(Unread, IsShownToChainsThatAReadHasWoken) {
    constexpr unsigned kParts = 6;
    const Folder folder;
    Running running(server_of(R"(
app parts { files columns = "*.col"  files marks = "*.mrk" }
chain more on read(columns) as r { when r.total >= 256KiB { prefetch r.file at r.offset + r.length for 4096 } }
chain beside on open(columns) as c { prefetch marks.sibling(c, ".mrk") }
)"));
    Poster poster(running.region(), 0);
    std::vector<std::string> columns, marks;
    for (unsigned i = 0; i < kParts; i++) {
        const std::string name = std::to_string(i) + "/a";
        columns.push_back(file_of_pages(folder, name + ".col"));
        marks.push_back(file_of_pages(folder, name + ".mrk"));
    }
    const InMemory warm(marks[0], 0, kInFile);
    const auto posts = [&] { return running.region().class_posts[0].load(); };
    const auto opens_in_vain = [&] {
        ASSERT_TRUE(poster.opened(0, columns[0]));
        ASSERT_TRUE(poster.closed(0, columns[0]));
        ASSERT_TRUE(poster.read(0, columns[0], 0, 4096, 2'000));
        ASSERT_TRUE(happens([&] { return poster.taken(); }));
    };
    for (unsigned i = 0; i < 80; i++) opens_in_vain();
    // Where that took long, gates have closed meanwhile, and a probe looks at a few more.
    ASSERT_TRUE(happens([&] {
        opens_in_vain();
        return (posts() & (shim::kWakeOpens | shim::kPostBegun)) == 0;
    })) << "both sleep";
    for (unsigned i = 1; i < kParts; i++) {
        drop_pages(marks[i]);
        ASSERT_TRUE(poster.opened(0, columns[i]));
    }
    ASSERT_TRUE(poster.opened(1, marks[1]));
    // How many such reads it takes depends on how long ago the gate has closed, and how often.
    std::vector<Seen> seen;
    for (unsigned i = 2; i < kParts; i++) seen.emplace_back(marks[i], Pages{0, kInFile});
    EXPECT_TRUE(happens([&] {
        if (poster.taken()) poster.read(1, marks[1], 0, 4096);
        for (Seen& each : seen) each.all();
        return seen[0].all();
    }));
    for (Seen& each : seen) EXPECT_TRUE(happens([&] { return each.all(); }));
    EXPECT_TRUE(happens([&] {
        if (poster.taken()) poster.read(1, marks[1], 0, 4096);
        return (posts() & shim::kPostBegun) != 0;
    })) << "what is read next will have to be waited for, too";
}

}  // namespace
}  // namespace chainio::shadow::test
