// Threads that go from folder to folder: what they open next is asked for before they come to it.
#include "runtime/shadow/succession.h"

#include <algorithm>
#include <filesystem>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr std::uint64_t kLater = 1'000'000'000;

// Makes the folders below `folder`, each with the files; returns the path of the first file of each.
std::vector<std::string> parts(const Folder& folder, const std::vector<std::string>& names,
                               const std::vector<std::string>& files = {"a.col"}) {
    std::vector<std::string> paths;
    for (const auto& name : names) {
        std::filesystem::create_directory(folder.path() + "/" + name);
        for (const auto& file : files) folder.write(name + "/" + file, std::string(8192, 'x'));
        paths.push_back(folder.path() + "/" + name + "/" + files[0]);
    }
    return paths;
}

TEST(Succession, CountsAsPeopleDo) {
    const std::vector<std::string> ordered = {"part_9_1",    "part_69_1", "part_69_2", "part_069_2",
                                              "part_1442_0", "parts",     "parts_1",   "q"};
    for (std::size_t i = 0; i < ordered.size(); i++) {
        for (std::size_t j = 0; j < ordered.size(); j++) {
            const bool alike = (i == 2 && j == 3) || (i == 3 && j == 2);
            if (!alike) EXPECT_EQ(comes_before(ordered[i], ordered[j]), i < j) << ordered[i] << " " << ordered[j];
        }
    }
    EXPECT_NE(comes_before("part_69_2", "part_069_2"), comes_before("part_069_2", "part_69_2"));
    EXPECT_FALSE(comes_before("", ""));
}

using Names = std::vector<std::string>;

TEST(Succession, ForetellsWhoHasGoneOneFolderOn) {
    const Folder folder;
    const auto in = parts(folder, {"p_1", "p_2", "p_10", "p_11", "p_12", "p_13", "p_14"});
    Succession succession(2);
    const auto after = [&](unsigned thread, const std::string& path) {
        return succession.after(thread, path, true, 0);
    };
    EXPECT_EQ(after(0, in[0]), Names()) << "nobody knows yet how it goes on";
    EXPECT_EQ(after(1, in[2]), Names()) << "each thread goes by itself";
    EXPECT_EQ(after(0, in[1]), (Names{in[2], in[3], in[4], in[5]}));
    const auto other = [&](const char* part) { return folder.path() + "/" + part + "/b.col"; };
    EXPECT_EQ(after(0, other("p_2")), (Names{other("p_10"), other("p_11"), other("p_12"), other("p_13")}));
    EXPECT_EQ(after(0, in[2]), (Names{in[3], in[4], in[5], in[6]}));
    EXPECT_EQ(after(0, in[3]), (Names{in[4], in[5], in[6]}));
    EXPECT_EQ(after(0, in[4]), (Names{in[5], in[6]}));
    EXPECT_EQ(after(0, in[5]), Names{in[6]});
    EXPECT_EQ(after(0, in[6]), Names()) << "the last one";
    EXPECT_EQ(after(0, in[0]), Names());
    EXPECT_EQ(after(0, in[2]), Names()) << "one was left out";
    EXPECT_EQ(after(0, in[1]), Names()) << "back";
    EXPECT_EQ(after(0, "/elsewhere/p_10/a.col"), Names());
    EXPECT_EQ(after(0, "a.col"), Names());
}

// A table has as many parts a month, and a key is in one of them.
TEST(Succession, ForetellsWhoLeavesOutAsManyFoldersEachTime) {
    const Folder folder;
    std::vector<std::string> names;
    for (int i = 0; i < 20; i++) names.push_back("p_" + std::to_string(i));
    const auto in = parts(folder, names);
    Succession succession(4);
    const auto after = [&](unsigned thread, unsigned part) { return succession.after(thread, in[part], false, 0); };
    EXPECT_EQ(after(0, 0), Names());
    EXPECT_EQ(after(0, 3), Names()) << "once may be chance";
    EXPECT_EQ(after(0, 6), (Names{in[9], in[12], in[15], in[18]}));
    EXPECT_EQ(after(0, 9), (Names{in[12], in[15], in[18]}));
    EXPECT_EQ(after(0, 10), (Names{in[11], in[12], in[13], in[14]})) << "to the next one";
    EXPECT_EQ(after(0, 12), Names()) << "it left out none before";
    EXPECT_EQ(after(0, 14), (Names{in[16], in[18]}));
    EXPECT_EQ(after(1, 1), Names());
    EXPECT_EQ(after(1, 3), (Names{in[5], in[7], in[9], in[11]})) << "as the one before it";
    EXPECT_EQ(after(1, 1), Names()) << "back";
    EXPECT_EQ(after(2, 2), Names());
    EXPECT_EQ(after(2, 5), Names()) << "the latest left out one";
    EXPECT_EQ(after(2, 8), (Names{in[11], in[14], in[17]}));
    after(2, 11), succession.after(2, "/elsewhere/p_1/a.col", false, 0);
    EXPECT_EQ(after(2, 10), Names()) << "it comes from elsewhere";
    EXPECT_EQ(after(3, 0), Names());
    EXPECT_EQ(after(3, 1), (Names{in[2], in[3], in[4], in[5]}));
    EXPECT_EQ(after(2, 13), Names()) << "what it left out before that says nothing";
    EXPECT_EQ(after(2, 16), Names{in[19]});
}

TEST(Succession, WhoGoesVeryFarGoesElsewhere) {
    const Folder folder;
    std::vector<std::string> names;
    for (std::size_t i = 0; i <= 4 * (Succession::kLongestStep + 1); i++) names.push_back("p_" + std::to_string(i));
    const auto in = parts(folder, names);
    Succession succession(2);
    const auto third = [&](unsigned thread, std::size_t step) {
        for (std::size_t i = 0; i < 2; i++) succession.after(thread, in[i * step], false, 0);
        return succession.after(thread, in[2 * step], false, 0);
    };
    EXPECT_EQ(third(0, Succession::kLongestStep + 1), Names());
    EXPECT_EQ(third(1, Succession::kLongestStep).size(), 2u);
}

// A query has threads of its own.
TEST(Succession, BelievesOfWhoBeginsAScanThatItGoesOnAsThoseBefore) {
    const Folder folder;
    const auto in = parts(folder, {"p_1", "p_2", "p_3", "p_4"});
    Succession succession(8);
    const auto after = [&](unsigned thread, int part, bool scans) {
        return succession.after(thread, in[part], scans, 0);
    };
    after(0, 0, true), after(0, 1, true);
    EXPECT_EQ(after(1, 0, true), Names()) << "one is none";
    after(1, 1, true);
    EXPECT_EQ(after(2, 1, true), (Names{in[2], in[3]}));
    EXPECT_EQ(after(3, 1, false), Names()) << "a look-up";
    EXPECT_EQ(after(3, 1, true), (Names{in[2], in[3]})) << "it was none";
    after(4, 0, true), after(4, 2, true);
    EXPECT_EQ(after(5, 0, true), Names()) << "the latest has not gone on";
    EXPECT_EQ(after(4, 3, true), Names()) << "there is none behind it";
}

TEST(Succession, SeesFoldersThatComeAndGo) {
    const Folder folder;
    const auto in = parts(folder, {"p_1", "p_2", "p_3"});
    Succession succession(1);
    succession.after(0, in[0], true, 0);
    EXPECT_EQ(succession.after(0, in[1], true, 0), Names{in[2]});
    const auto between = parts(folder, {"p_2_merged"});
    succession.after(0, in[0], true, kLater);
    EXPECT_EQ(succession.after(0, in[1], true, kLater), (Names{between[0], in[2]}));
    std::filesystem::remove_all(folder.path() + "/p_2_merged");
    succession.after(0, in[0], true, 2 * kLater);
    EXPECT_EQ(succession.after(0, in[1], true, 2 * kLater), Names{in[2]});
}

TEST(Succession, LeavesVeryManyFoldersAlone) {
    const Folder folder;
    for (std::size_t i = 0; i <= Succession::kMostFolders; i++)
        std::filesystem::create_directory(folder.path() + "/" + std::to_string(i));
    Succession succession(1);
    succession.after(0, folder.path() + "/1/a", true, 0);
    EXPECT_EQ(succession.after(0, folder.path() + "/2/a", true, 0), Names());
}

// As a spool folder with some folders in it: what is read of it is bounded, and not read again at each change.
TEST(Succession, LeavesFoldersAmongVeryManyFilesAlone) {
    const Folder folder;
    const auto in = parts(folder, {"p_1", "p_2", "p_3", "p_4"});
    for (std::size_t i = 0; i < Succession::kMostEntries; i++) folder.write(std::to_string(i), "");
    const auto goes_on = [&](Succession& succession, std::uint64_t when) {
        succession.after(0, in[0], true, when);
        return succession.after(0, in[1], true, when);
    };
    Succession succession(1);
    EXPECT_EQ(goes_on(succession, 0), Names());
    for (std::size_t i = 0; i < Succession::kMostEntries; i++)
        std::filesystem::remove(folder.path() + "/" + std::to_string(i));
    EXPECT_EQ(goes_on(succession, kLater), Names());
    EXPECT_EQ(goes_on(succession, 60 * kLater), (Names{in[2], in[3]}));
}

const char* const kPartsSpec = R"(
app parts { files columns = "*.col"  files marks = "*.mrk"  files other = "*.mrk2" }
chain beside on open(columns) as c { prefetch marks.sibling(c, ".mrk")  prefetch other.sibling(c, ".mrk2") }
)";

TEST(Succession, AChainOnOpeningsRunsAheadOfTheThreadAndNotAgain) {
    const Folder folder;
    const auto in = parts(folder, {"p_1", "p_2", "p_3"}, {"a.col", "a.mrk"});
    const auto mark = [&](int part) { return folder.path() + "/p_" + std::to_string(part) + "/a.mrk"; };
    for (int part = 1; part <= 3; part++) drop_pages(mark(part));
    Running running(server_of(kPartsSpec));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, in[0]));
    EXPECT_TRUE(come(mark(1), {{0, 2}}));
    EXPECT_EQ(pages_in_memory(mark(2), 0, 2), 0u);
    ASSERT_TRUE(poster.opened(0, in[1]));
    EXPECT_TRUE(come(mark(3), {{0, 2}})) << "before anybody has opened it";
    EXPECT_EQ(running.chain().events, 3u);
}

// What is foretold is remembered for a second, so that nothing is waited for in between.
TEST(Succession, AChainOnOpeningsIsShownEachOnce) {
    const Folder folder;
    const auto in = parts(folder, {"p_1", "p_2", "p_3"}, {"a.col", "a.mrk"});
    auto server = server_of(kPartsSpec);
    const tests::MappedRegion region(server->region_path());
    Poster poster(*region.get(), 0);
    for (int part = 0; part < 3; part++) ASSERT_TRUE(poster.opened(0, in[part]));
    Running running(std::move(server));
    EXPECT_TRUE(happens([&] { return running.chain().events == 3; })) << running.chain().events;
    ASSERT_TRUE(poster.opened(0, in[2]));
    EXPECT_TRUE(happens([&] { return running.chain().events == 4; })) << "opened once more";
    running.stop();
    EXPECT_EQ(running.chain().events, 4u) << "the third was foretold, or shown when it was opened";
}

// Each look for a file that is not there is a walk through its folders.
TEST(Succession, SiblingsThatAreNeverThereAreSeldomLookedFor) {
    const Folder folder;
    const std::string column = folder.write("a.col", "x");
    Running running(server_of(kPartsSpec, {.gate = false}));
    Poster poster(running.region(), 0);
    const auto open = [&](int times) {
        for (int i = 0; i < times; i++)
            if (!poster.opened(0, column)) return false;
        return happens([&] { return poster.taken(); });
    };
    ASSERT_TRUE(open(8));
    folder.write("a.mrk", std::string(4096, 'x'));
    ASSERT_TRUE(open(7));
    EXPECT_EQ(running.chain().dropped, 30u) << "it is there by now, and not looked for";
    ASSERT_TRUE(open(1));
    EXPECT_TRUE(happens([&] { return running.chain().cached + running.chain().fetches == 1; })) << "found all the same";
    ASSERT_TRUE(open(1));
    EXPECT_EQ(running.chain().dropped, 32u) << "the other is still missing";
}

}  // namespace
}  // namespace chainio::shadow::test
