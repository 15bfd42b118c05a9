// Files that the server leaves alone, what programs pay for that, and headers by which it does.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/refusals.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

// Its header names the page that is read behind the second one, or behind any that says so.
constexpr const char* kByPlace = R"(
app tables { files tables = "*.tbl" { header Head } }
record Head { magic: bytes(4) == "TBL1"  next: u32le }
chain follow on read(tables) as r { when r.offset == 4096 { prefetch r.file at r.file.next * 4096 for 4096 } }
)";
constexpr const char* kByBytes = R"(
app tables { files tables = "*.tbl" { header Head } }
record Head { magic: bytes(4) == "TBL1"  next: u32le }
record Page { says: u8 }
chain follow on read(tables) as r {
  when r.record(Page).says == 120 { prefetch r.file at r.file.next * 4096 for 4096 }
}
)";

constexpr const char* kByWalk = R"(
app tables { files tables = "*.tbl" { header Head } }
record Head { magic: bytes(4) == "TBL1"  next: u32le }
record Page { says: u8 }
chain there(db: file tables, from: u64) -> u8 hops 2 {
  step there(p: Page at db.next * 4096 for 4096 in db) { return 1 }
}
chain follow on read(tables) as r { when r.record(Page).says == 120 { prefetch via there(r.file, r.offset) } }
)";

std::string table(std::uint32_t next, std::size_t pages = 16) {
    std::string bytes(pages * kPage, 'x');
    bytes.replace(0, 8, std::string("TBL1") + static_cast<char>(next) + std::string(3, 0));
    return bytes;
}

void give_header(const std::string& path, std::uint32_t next) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(pwrite(fd, table(next).data(), 8, 0), 8);
    close(fd);
}

// As an event names it when it has no path any more.
shim::Event read_of(const struct stat& info) {
    shim::Event event{};
    event.kind = shim::EventKind::read;
    event.device = info.st_dev;
    event.inode = info.st_ino;
    event.length = kPage;
    event.took_ns = 500;
    return event;
}

bool says(const Report& report, const std::string& note) { return std::ranges::count(report.notes, note) == 1; }

struct Case {
    const char* name;
    void (*spoil)(const std::string& path, const Folder& folder);  // when it has been opened
    const char* note;
};

class FileLeftAlone : public testing::TestWithParam<std::tuple<bool, Case>> {};

// The chain is not run, and hears of slow reads only, as one that has nothing to say.
TEST_P(FileLeftAlone, CostsAProgramNoMoreThanAnother) {
    const auto& [by_bytes, how] = GetParam();
    const Folder folder;
    const std::string path = folder.write("a.tbl", table(5));
    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    const int held = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    Running running(server_of(by_bytes ? kByBytes : kByPlace));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    how.spoil(path, folder);
    const auto posts = [&] { return running.region().class_posts[0].load(); };
    for (int i = 0; i < 63; i++) ASSERT_TRUE(poster.post(read_of(info)));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    EXPECT_EQ(posts() & shim::kPostReads, shim::kPostReads);
    ASSERT_TRUE(poster.post(read_of(info)));
    EXPECT_TRUE(happens([&] { return posts() == (shim::kPostOpens | shim::kPostSlowReads); })) << posts();
    running.stop();
    close(held);
    EXPECT_EQ(running.chain().events, 0u);
    EXPECT_EQ(running.chain().failed, 0u);
    EXPECT_EQ(running.chain().dropped, 0u) << "nothing was asked for";
    EXPECT_TRUE(says(running.server().report(), how.note + (" ('" + path + "')"))) << how.note;
}

const Case kCases[] = {
    {"header",
     [](const std::string& path, const Folder&) {
         const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
         EXPECT_EQ(pwrite(fd, "GDBM", 4, 0), 4);
         close(fd);
     },
     "a file was left alone: its first bytes are not the header that the class declares"},
    {"removed", [](const std::string& path, const Folder&) { std::filesystem::remove(path); },
     "a file was left alone: it cannot be opened by its path"},
    {"replaced",
     [](const std::string& path, const Folder& folder) {
         std::filesystem::rename(folder.write("other", table(5)), path);
     },
     "a file was left alone: its path leads to another file by now"},
    {"cut", [](const std::string& path, const Folder&) { EXPECT_EQ(truncate(path.c_str(), 0), 0); },
     "a file was left alone: its first bytes are not the header that the class declares"},
};
INSTANTIATE_TEST_SUITE_P(Shadow, FileLeftAlone, testing::Combine(testing::Bool(), testing::ValuesIn(kCases)),
                         [](const auto& info) {
                             const bool by_bytes = std::get<0>(info.param);
                             return std::get<1>(info.param).name + std::string(by_bytes ? "_by_bytes" : "_by_place");
                         });

// Nothing is known of it, and it is looked for once in a while only.
TEST(LeftAlone, AFileThatNobodyHasOpenCostsAProgramNoMoreThanAnother) {
    const Folder folder;
    const std::string path = folder.write("a.tbl", table(5));
    Running running(server_of(kByBytes));
    Poster poster(running.region(), 0);
    for (int i = 0; i < 64; i++) ASSERT_TRUE(poster.read(0, path, kPage, kPage, 500));
    EXPECT_TRUE(
        happens([&] { return running.region().class_posts[0].load() == (shim::kPostOpens | shim::kPostSlowReads); }));
    running.stop();
    EXPECT_TRUE(says(running.server().report(), "a file was left alone: its opening was not seen"));
}

// A program makes a file, and writes its header when it has read from it.
TEST(LeftAlone, AFileThatGetsItsHeaderLaterIsLookedAtAgain) {
    const Folder folder;
    const std::string path = folder.write("a.tbl", std::string(16 * kPage, 'x'));
    Running running(server_of(kByBytes));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, kPage, kPage));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    EXPECT_EQ(running.chain().events, 0u);
    give_header(path, 5);
    EXPECT_TRUE(happens([&] {
        return poster.read(0, path, kPage, kPage) && happens([&] { return poster.taken(); }) &&
               running.chain().events != 0;
    }));
}

// As VACUUM does with another size of pages, while the file is in use all the time.
class HeaderThatChanges : public testing::TestWithParam<const char*> {};

TEST_P(HeaderThatChanges, IsReadAgain) {
    constexpr unsigned kPages = 64;
    const Folder folder;
    const std::string path = folder.write("a.tbl", table(20, kPages));
    Running running(server_of(GetParam()));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    // Each at another place, as the same walk is not done twice in a row.
    std::uint64_t page = 0;
    const auto leads_to = [&](std::uint64_t wanted) {
        return happens([&] {
            page = page % 15 + 1;
            return poster.read(0, path, page * kPage, kPage) && happens([&] { return poster.taken(); }) &&
                   pages_in_memory(path, wanted, 1) == 1;
        });
    };
    EXPECT_TRUE(leads_to(20));
    EXPECT_EQ(pages_in_memory(path, 40, 1), 0u);
    give_header(path, 40);
    EXPECT_TRUE(leads_to(40));
    EXPECT_EQ(running.chain().failed, 0u);
}

INSTANTIATE_TEST_SUITE_P(Shadow, HeaderThatChanges, testing::Values(kByBytes, kByWalk),
                         [](const auto& info) { return info.param == kByBytes ? "ranges" : "walks"; });

// However often chains ask for it.
TEST(LeftAlone, AHeaderIsLookedAtOnceInAWhile) {
    const Folder folder;
    const auto spec = compiled(kByBytes);
    Files files(*spec, 8, 4);
    const std::string path = folder.write("a.tbl", table(5));
    const auto found = files.at(path, 0, now_ns());
    ASSERT_TRUE(found);
    const auto next = [&] { return files.header(**found, 0)->at(0); };
    EXPECT_EQ(next(), 5u);
    give_header(path, 6);
    EXPECT_EQ(next(), 5u);
    files.look_again();
    EXPECT_EQ(next(), 6u);
}

// A file's times move on in steps, and what is written through a mapping leaves them alone for a while.
TEST(LeftAlone, AHeaderIsReadAgainWhileAChangeOfItsFileMayGoUnseen) {
    const Folder folder;
    const auto spec = compiled(kByBytes);
    Files files(*spec, 8, 4);
    const std::string path = folder.write("a.tbl", table(5));
    const auto found = files.at(path, 0, now_ns());
    ASSERT_TRUE(found);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* at = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(at, MAP_FAILED);
    auto* next = static_cast<volatile std::uint8_t*>(at) + 4;
    std::uint8_t wanted = 5;
    *next = wanted;
    // Once more where the test was kept from its processor between the two.
    EXPECT_TRUE(happens([&] {
        EXPECT_EQ(futimens(fd, nullptr), 0);
        files.look_again();
        files.header(**found, 0);
        *next = ++wanted;
        files.look_again();
        return files.header(**found, 0)->at(0) == wanted;
    }));
    munmap(at, kPage);
    close(fd);
}

// Whichever way: what is not there is not looked for at each event.
TEST(LeftAlone, WhatCannotBeOpenedIsTriedAgainWhenAProgramOpensIt) {
    const Folder folder;
    const auto spec = compiled(kByBytes);
    Files files(*spec, 8, 4);
    const std::string path = folder.write("a.tbl", table(5)), elsewhere = folder.path() + "/b.tbl";
    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    ShadowFile& file = files.opened(info.st_dev, info.st_ino, path, O_RDONLY, 0);
    std::filesystem::rename(path, elsewhere);
    folder.write("a.tbl", table(6));
    EXPECT_EQ(files.open(file).error(), FileRefusal::replaced);
    std::filesystem::rename(elsewhere, path);
    EXPECT_EQ(files.open(file).error(), FileRefusal::replaced) << "remembered, and why";
    files.opened(info.st_dev, info.st_ino, path, O_RDONLY, 0);
    EXPECT_TRUE(files.open(file));
}

TEST(LeftAlone, FilesAreCountedAndNotHowOftenTheyWereAskedFor) {
    Refusals refusals;
    EXPECT_TRUE(refusals.notes().empty());
    for (int i = 0; i < 3; i++) refusals.add(FileRefusal::bad_header, 7);
    for (std::uint64_t file = 0; file < 2; file++) refusals.add(FileRefusal::no_match, file);
    for (int i = 0; i < 3; i++) refusals.add(FileRefusal::leaves_root, 1, "../a");
    refusals.add(FileRefusal::leaves_root, 1, "../b");
    refusals.add(FileRefusal::leaves_root, 2, "../b");
    for (std::uint64_t file = 0; file < 2 * Refusals::kMost; file++) refusals.add(FileRefusal::no_path, file);
    EXPECT_EQ(refusals.notes(), (std::vector<std::string>{
                                    "4096 files and more were each left alone: its opening was not seen",
                                    "3 files were each left alone: the path is no path under the class's root",
                                    "2 files were each left alone: the path does not match the class's pattern",
                                    "a file was left alone: its first bytes are not the header that the class declares",
                                }));
}

TEST(LeftAlone, AnExampleOfEachReasonIsNamed) {
    Refusals refusals;
    refusals.add(FileRefusal::cannot_open, 1);
    refusals.set_example(FileRefusal::cannot_open, "/a\x1b[2J");
    EXPECT_FALSE(refusals.wants_example(FileRefusal::cannot_open));
    EXPECT_TRUE(refusals.wants_example(FileRefusal::made_when_read));
    refusals.add(FileRefusal::made_when_read, 1);
    refusals.add(FileRefusal::made_when_read, 2);
    refusals.set_example(FileRefusal::made_when_read, "/proc/self/" + std::string(Refusals::kLongestExample - 1, 'x'));
    EXPECT_EQ(refusals.notes(),
              (std::vector<std::string>{
                  "a file was left alone: it cannot be opened by its path ('/a\\x1b[2J')",
                  "2 files were each left alone: the kernel makes it when it is read, as those of /proc and /sys (one "
                  "of them: '…/" +
                      std::string(Refusals::kLongestExample - 1, 'x') + "')",
              }));
}

// A chain makes these by itself, and they stand nowhere else.
TEST(LeftAlone, OneOfThePathsThatChainsHaveMadeIsNamed) {
    const Folder folder;
    const std::string list = folder.write("a.lst", "%6eo.txt,,,"), other = folder.write("b.dat", "x");
    Running running(server_of(R"(
app lists {
  files lists = "*.lst"
  files texts = ")" + folder.path() +
                              R"(/*.txt" { root ")" + folder.path() + R"(" }
  files beside = "*.idx"
}
chain named on read(lists) as r { prefetch texts[r[..8]] at 0 for 4096  prefetch texts["b.dat"] at 0 for 4096 }
chain next on read(lists) as r { when r.length >= 4 { prefetch beside.sibling(r, ".idx") at 0 for 4096 } }
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, list));
    ASSERT_TRUE(poster.read(0, list, 0, 11));
    EXPECT_TRUE(happens([&] { return running.chain(0).events == 1 && running.chain(1).events == 1; }));
    running.stop();
    const Report report = running.server().report();
    SCOPED_TRACE(testing::PrintToString(report.notes));
    EXPECT_TRUE(says(report, "2 files were each left alone: it cannot be opened by its path (one of them: '" +
                                 folder.path() + "/no.txt')"));
    EXPECT_TRUE(says(report, "a file was left alone: the path does not match the class's pattern ('" + other + "')"));
}

// After some that are not there few are looked for: of the others the report says the same.
TEST(LeftAlone, ASiblingIsLeftAloneForOneReasonHoweverOftenItIsNamed) {
    for (const auto& [ending, why] : {std::pair(".idx", "it is not a regular file"),
                                      std::pair(".ids", "the path does not match the class's pattern"),
                                      std::pair(".no.idx", "it cannot be opened by its path")}) {
        const Folder folder;
        const std::string list = folder.write("a.lst", std::string(100, 'x'));
        std::filesystem::create_directory(folder.path() + "/a.idx");
        Running running(server_of(R"(
app lists { files lists = "*.lst"  files beside = "*.idx" }
chain next on read(lists) as r { prefetch beside.sibling(r, ")" +
                                  std::string(ending) + R"(") at 0 for 4096 }
)"));
        Poster poster(running.region(), 0);
        ASSERT_TRUE(poster.opened(0, list));
        for (unsigned i = 0; i < 20; i++) ASSERT_TRUE(poster.read(0, list, i, 1));
        EXPECT_TRUE(happens([&] { return running.chain().events == 20; }));
        running.stop();
        EXPECT_EQ(running.chain().dropped, 20u);
        std::vector<std::string> notes = running.server().report().notes;
        std::erase_if(notes, [](const std::string& note) { return !note.contains("left alone"); });
        EXPECT_EQ(notes, std::vector<std::string>{std::string("a file was left alone: ") + why + " ('" + folder.path() +
                                                  "/a" + ending + "')"});
    }
}

// The kernel had read nothing ahead of it, nor would it have.
TEST(LeftAlone, AFilesFirstReadIsNoneThatGoesOn) {
    constexpr unsigned kFiles = 40;
    const Folder folder;
    Running running(server_of(R"(
app columns { files columns = "*.col" { no_read_ahead } }
chain never on read(columns) as r { when r.total == 1 { prefetch r.file at 0 for 4096 } }
)"));
    Poster poster(running.region(), 0);
    for (unsigned i = 0; i < kFiles; i++) {
        const std::string path = folder.write(std::to_string(i) + ".col", std::string(4 * kPage, 'x'));
        ASSERT_TRUE(poster.opened(0, path));
        ASSERT_TRUE(poster.read(0, path, 0, kPage));
    }
    ASSERT_TRUE(happens([&] { return running.stats().classes[0].slow_reads == kFiles; }));
    EXPECT_NE(running.region().class_posts[0].load() & shim::kNoReadAhead, 0u);
}

}  // namespace
}  // namespace chainio::shadow::test
