// What an event shows the chains that run over it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/shadow/clock.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr unsigned kColumnPages = 512;
constexpr std::uint32_t kScan = 256 * 1024;

std::string column(const Folder& folder, const char* name) {
    return folder.write(name, std::string(std::size_t{kColumnPages} * kPage, 'x'));
}

bool held_here(const std::string& path) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        if (std::filesystem::read_symlink(entry, ignored) == path) return true;
    return false;
}

TEST(Events, ALongReadIsToldFromAShortOneByItsWholeLength) {
    const Folder folder;
    const std::string path = column(folder, "a.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r {
  if r.total >= 256KiB { prefetch r.file at r.offset + r.length for 64KiB }
}
)"));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.begun(0, path, 0, kScan - 1));
    ASSERT_TRUE(poster.begun(0, path, 0, kScan));
    EXPECT_TRUE(come(path, {{kScan / kPage, 16}}));
    running.stop();
    EXPECT_EQ(in_memory_besides(path, kColumnPages, {{kScan / kPage, 16}}), 0u);
    EXPECT_EQ(running.chain().events, 2u);
    EXPECT_EQ(running.chain().fetches, 1u);
}

TEST(Events, OfALongReadTheFirstBytesAreShownAndItsWholeLength) {
    const Folder folder;
    std::string bytes(std::size_t{kColumnPages} * kPage, 0);
    bytes[0] = 7;  // a block's number
    const std::string path = folder.write("a.col", bytes);
    Running running(server_of(R"(
app columns { files columns = "*.col" }
record Head { piece: u8 }
chain named on read(columns) as r {
  when r.length == 64KiB && r.total == 256KiB { prefetch r.file at r.record(Head).piece * 256KiB for 4096 }
}
)"));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kScan));
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, 7 * (kScan / kPage), 1) == 1; }));
    EXPECT_EQ(running.chain().failed, 0u);
}

TEST(Events, OfAFileThatHasBecomeShorterIsShownWhatIsLeft) {
    const Folder folder;
    const std::string path = folder.write("a.col", "\x07" + std::string(99, 'x'));
    Running running(server_of(R"(
app columns { files columns = "*.col" }
record Head { piece: u8 }
chain named on read(columns) as r { when r.length == 100 && r.record(Head).piece == 7 { prefetch r.file at 0 for 1 } }
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(poster.read(0, path, kPage, kPage));  // nothing is left
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    EXPECT_EQ(running.chain().events, 1u);
    EXPECT_EQ(running.chain().cached + running.chain().fetches, 1u);
    const auto notes = running.server().report().notes;
    EXPECT_EQ(std::ranges::count(notes, "the bytes of a read could not be read again once"), 1);
}

TEST(Events, ThatAFileIsLeftAloneForItsFlagsIsExplained) {
    const Folder folder;
    const std::string path = column(folder, "a.col");
    ServerOptions options;
    options.explain = true;
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain first on open(columns) as r { prefetch r.file at 0 for 4096 }
)",
                              options));
    Poster poster(running.region(), 0);
    for (int i = 0; i < 3; i++) ASSERT_TRUE(poster.opened(0, path, O_DIRECT));
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(happens([&] { return poster.taken(); }));
    running.stop();
    const auto all = running.server().report().explained;
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].why, "");
    EXPECT_EQ(all[0].times, 1u);
    EXPECT_EQ(all[1].why, "it is opened with O_DIRECT and its class is not immutable: it is left alone");
    EXPECT_EQ(all[1].times, 3u);
}

// Of a class, and of the thread: another thread may go about the same files otherwise.
TEST(Events, AnOpenTellsHowTheThreadReadTheLastFile) {
    const Folder folder;
    const std::string first = column(folder, "a.col"), second = column(folder, "b.col");
    const std::string third = column(folder, "c.col");
    Running running(server_of(kHeads));
    Poster scanner(running.region(), 0), other(running.region(), 1);
    for (const auto& path : {first, second, third}) drop_pages(path);
    ASSERT_TRUE(scanner.opened(0, first));
    ASSERT_TRUE(scanner.begun(0, first, 0, kScan));
    ASSERT_TRUE(scanner.ended(0, first, 0, kPage));  // it has asked for more than there was
    ASSERT_TRUE(happens([&] { return scanner.taken(); }));
    ASSERT_TRUE(other.opened(0, second));
    ASSERT_TRUE(happens([&] { return other.taken(); }));
    ASSERT_TRUE(scanner.opened(0, third));
    EXPECT_TRUE(come(third, {{0, 16}}));
    EXPECT_EQ(in_memory_besides(third, kColumnPages, {{0, 16}}), 0u);
    EXPECT_EQ(pages_in_memory(second, 0, kColumnPages), 0u);
    EXPECT_EQ(pages_in_memory(first, 0, kColumnPages), 0u);
}

// Each look at an opening opens the file once more.
TEST(Events, AChainThatAsksForNothingSeesFewOpenings) {
    const Folder folder;
    const std::string small = folder.write("a.col", std::string(kPage, 'x')), large = column(folder, "b.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain large on open(columns) as c { when c.file.file_size > 4096 { prefetch c.file at 0 for 4096 } }
)"));
    Poster poster(running.region(), 0);
    drop_pages(large);
    const auto open_all = [&](const std::string& path, unsigned times) {
        for (unsigned i = 0; i < times; i++)
            while (!poster.opened(0, path)) std::this_thread::yield();
        return happens([&] { return poster.taken(); });
    };
    ASSERT_TRUE(open_all(small, 64 + 32));
    EXPECT_TRUE(happens([&] { return running.chain().events == 64u + 8; })) << running.chain().events;
    EXPECT_EQ(running.region().class_posts[0].load(), shim::kPostOpens);
    ASSERT_TRUE(open_all(large, 4));
    EXPECT_TRUE(happens([&] { return pages_in_memory(large, 0, 1) == 1; })) << "it is looked at now and then";
    EXPECT_TRUE(happens([&] { return (running.region().class_posts[0].load() & shim::kWakeOpens) != 0; }))
        << "once it has begun";
}

// The server may have opened it at its first opening, when there was nothing in it.
TEST(Events, AFileHasTheLengthThatItHasAsAProgramOpensIt) {
    const Folder folder;
    const std::string path = folder.write("a.col", "");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain tail on open(columns) as c {
  if c.file.file_size >= 4096 { prefetch c.file at c.file.file_size - 4096 for 4096 }
}
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path, O_RDWR));
    ASSERT_TRUE(happens([&] { return running.chain().events == 1; }));
    ASSERT_TRUE(held_here(path));
    column(folder, "a.col");
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(happens([&] { return running.chain().events == 2; }));
    EXPECT_TRUE(come(path, {{kColumnPages - 1, 1}}));
    running.stop();
    EXPECT_EQ(running.chain().fetches, 1u);
}

// Nor does a chain that goes by no byte of it need an open file to say that it wants nothing.
TEST(Events, AFileIsOpenedWhenSomethingOfItIsWanted) {
    const Folder folder;
    const std::string first = column(folder, "a.col"), second = column(folder, "b.col");
    const std::string third = column(folder, "c.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r {
  if r.total >= 4096MiB && r.file.read_ahead < 4096MiB { prefetch r.file at 0 for 4096 }
}
chain head on open(columns) as c {
  when c.last_read >= 256KiB && c.file.read_ahead < 4096MiB { prefetch c.file at 0 for 64KiB }
}
)"));
    Poster poster(running.region(), 0);
    drop_pages(third);
    const auto events = [&](unsigned reads, unsigned openings) {
        return happens([&] { return running.chain(0).events == reads && running.chain(1).events == openings; });
    };
    ASSERT_TRUE(poster.opened(0, first));
    ASSERT_TRUE(events(0, 1));
    EXPECT_TRUE(held_here(first)) << "how far the kernel reads ahead was not known of its device";
    ASSERT_TRUE(poster.closed(0, first));
    ASSERT_TRUE(poster.opened(0, second));
    ASSERT_TRUE(poster.begun(0, second, 0, kScan));
    ASSERT_TRUE(events(1, 2));
    EXPECT_FALSE(held_here(second));
    ASSERT_TRUE(poster.opened(0, third));
    EXPECT_TRUE(come(third, {{0, 16}}));
    EXPECT_EQ(in_memory_besides(third, kColumnPages, {{0, 16}}), 0u);
    EXPECT_TRUE(held_here(third));
}

// It is looked at then, as one is that was opened at once.
TEST(Events, AFileThatWasReplacedBeforeSomethingOfItIsWantedIsLeftAlone) {
    const Folder folder;
    const std::string first = column(folder, "a.col"), second = column(folder, "b.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r { if r.total >= 256KiB { prefetch r.file at 0 for 4096 } }
)"));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, first));
    ASSERT_TRUE(poster.begun(0, first, 0, kScan));
    ASSERT_TRUE(poster.opened(0, second));
    ASSERT_TRUE(poster.begun(0, second, 0, kScan - 1));
    ASSERT_TRUE(happens([&] { return running.chain().events == 2; }));
    const std::string moved = folder.path() + "/moved";
    std::filesystem::rename(second, moved);
    column(folder, "b.col");
    drop_pages(second);
    ASSERT_TRUE(poster.begun(0, moved, 0, kScan));
    ASSERT_TRUE(happens([&] { return running.chain().events == 3; }));
    running.stop();
    EXPECT_EQ(pages_in_memory(second, 0, kColumnPages), 0u);
    const auto notes = running.server().report().notes;
    EXPECT_TRUE(std::ranges::any_of(notes, [&](const std::string& note) {
        return note == "a file was left alone: its path leads to another file by now ('" + second + "')";
    }));
}

// A chain that asks for something of a file that is gone has asked all the same: longer reads are still to be told.
TEST(Events, AFileThatCannotBeOpenedSaysNothingOfLengths) {
    const Folder folder;
    const std::string first = column(folder, "z.col"), path = column(folder, "a.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r { when r.total >= 65536 { prefetch r.file at 0 for 4096 } }
)"));
    Poster poster(running.region(), 0);
    drop_pages(path);
    // Of a file on a disk that is known nothing is opened before a chain asks for something.
    for (const std::string& each : {first, path}) {
        ASSERT_TRUE(poster.opened(0, each));
        ASSERT_TRUE(poster.begun(0, each, 0, kPage));
    }
    ASSERT_TRUE(happens([&] { return running.chain().events == 2; }));
    ASSERT_FALSE(held_here(path));
    const std::string there = folder.path() + "/gone";
    std::filesystem::rename(path, there);
    for (unsigned i = 0; i < 4; i++) ASSERT_TRUE(poster.begun(0, there, 0, 65'536));
    ASSERT_TRUE(happens([&] { return running.chain().events == 6; }));
    for (unsigned i = 0; i < 64; i++) ASSERT_TRUE(poster.begun(0, there, 0, kPage));
    EXPECT_TRUE(happens([&] { return running.region().least_read[0].load() == kPage + 1; }))
        << running.region().least_read[0].load();
    running.stop();
    EXPECT_EQ(running.chain().fetches, 0u);
}

// What a file's end cuts short was no short read: how much it asked for counts, in what is learnt and in who is heard.
TEST(Events, AReadThatTheFilesEndCutShortIsAsLongAsItAsked) {
    constexpr std::uint32_t kPiece = 1 << 20;
    const Folder folder;
    const std::string path = column(folder, "a.col"), next = column(folder, "b.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r { when r.total >= 1MiB { prefetch r.file at 0 for 4096 } }
chain head on open(columns) as c { when c.last_read >= 1MiB { prefetch c.file at 8192 for 4096 } }
)"));
    Poster poster(running.region(), 0);
    drop_pages(next);
    ASSERT_TRUE(poster.opened(0, path));
    for (unsigned i = 0; i < 64; i++) ASSERT_TRUE(poster.read(0, path, 0, kPage, 2'000));
    ASSERT_TRUE(happens([&] { return running.region().least_read[0].load() == kPage + 1; }));
    // It has heard nothing of use for long: only a read that waits, and that may be of use, has it listen again.
    ASSERT_TRUE(happens([&] { return (running.region().class_posts[0].load() & shim::kPostBegun) == 0; }));
    ASSERT_TRUE(poster.cut_short(0, path, 0, kPage / 2, kPiece));
    EXPECT_TRUE(happens([&] { return (running.region().class_posts[0].load() & shim::kPostBegun) != 0; }));
    ASSERT_TRUE(poster.cut_short(0, path, 0, 2 * kPage, kPiece));
    ASSERT_TRUE(happens([&] { return running.chain().events == 66; }));
    EXPECT_EQ(running.region().least_read[0].load(), kPage + 1);
    ASSERT_TRUE(poster.opened(0, next));
    EXPECT_TRUE(happens([&] { return pages_in_memory(next, 2, 1) == 1; }));
}

// Reads that are helped, and those that begin elsewhere, need no read-ahead of the kernel, however long they wait. What
// is said to have waited begins well behind its fetch here: one that had hardly begun would be in vain.
TEST(Events, OnlyReadsInOrderThatNobodyHelpsWantTheKernelsReadAhead) {
    constexpr unsigned kReads = 80;
    constexpr std::uint32_t kWaitNs = 100'000;
    const Folder folder;
    const std::string path = column(folder, "a.col"), other = column(folder, "b.oth");
    Running running(server_of(R"(
app columns { files columns = "*.col" { no_read_ahead }  files others = "*.oth" { no_read_ahead } }
chain more on read(columns) as r { prefetch r.file at r.offset + r.length for 4096 }
chain never on read(others) as r { when r.total == 1 { prefetch r.file at 0 for 4096 } }
)"));
    Poster poster(running.region(), 0);
    const auto advised = [&](unsigned file_class) {
        return (running.region().class_posts[file_class].load() & shim::kNoReadAhead) != 0;
    };
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.opened(1, other));
    for (unsigned i = 0; i < kReads; i++) {
        ASSERT_TRUE(poster.read(0, path, std::uint64_t{i} * kPage, kPage, kWaitNs));
        ASSERT_TRUE(happens([&] { return running.chain().fetches == i + 1; }));
        const std::uint64_t fetched = shadow::now_ns();
        ASSERT_TRUE(happens([&] { return shadow::now_ns() - fetched >= std::uint64_t{2} * kWaitNs; }));
        ASSERT_TRUE(poster.read(1, other, std::uint64_t{kReads - i} * kPage, kPage));
    }
    ASSERT_TRUE(happens([&] { return running.stats().classes[1].reads == kReads; }));
    EXPECT_TRUE(advised(0));
    EXPECT_TRUE(advised(1));
    for (unsigned i = 0; i < kReads; i++) ASSERT_TRUE(poster.read(1, other, std::uint64_t{i} * kPage, kPage));
    EXPECT_TRUE(happens([&] { return !advised(1); }));
}

// More others than are kept open: the file whose opening is told of stays, for the chains that come after.
TEST(Events, AnOpenedFileStaysOpenWhileAChainNamesManyOthers) {
    constexpr unsigned kOthers = 300;
    const Folder folder;
    const std::string path = column(folder, "a.col");
    std::string spec =
        "app columns { files columns = \"*.col\" files others = \"*.n*\" }\n"
        "chain names on open(columns) as c {";
    for (unsigned i = 0; i < kOthers; i++) {
        folder.write("a.n" + std::to_string(i), std::string(kPage, 'x'));
        spec += " prefetch others.sibling(c, \".n" + std::to_string(i) + "\") at 0 for 4096\n";
    }
    spec += "}\nchain last on open(columns) as c { prefetch c.file at 8192 for 4096 }\n";
    Running running(server_of(spec));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, 2, 1) == 1; }));
    EXPECT_TRUE(happens([&] { return running.chain(1).events == 1; }));
    running.stop();
    EXPECT_EQ(running.chain(0).events, 1u);
    EXPECT_EQ(running.chain(0).failed, 0u);
    EXPECT_EQ(running.chain(1).fetches, 1u);
}

TEST(Events, AChainIsToldHowFarTheKernelReadsAhead) {
    const Folder folder;
    const std::string path = column(folder, "a.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain behind on read(columns) as r {
  when r.file.read_ahead >= 4096 && r.file.read_ahead < 1GiB { prefetch r.file at 256KiB for 4096 }
}
)"));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, 64, 1) == 1; }));
}

TEST(Events, OfAClassWithoutReadAheadChainsHearOfNone) {
    const Folder folder;
    const std::string path = column(folder, "a.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" { no_read_ahead } }
chain alone on read(columns) as r { when r.file.read_ahead == 0 { prefetch r.file at 256KiB for 4096 } }
)"));
    EXPECT_NE(running.region().class_posts[0].load() & shim::kNoReadAhead, 0u);
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, 64, 1) == 1; }));
}

TEST(Events, WhatANameHoldsForATerminalIsShownAndNotDone) {
    const Folder folder;
    const std::string path = folder.write("\x1b[2J\n\xc3\xa4\xc2\x9b\xff\x7f.col", "x");
    ServerOptions options;
    options.explain = true;
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain first on open(columns) as r { prefetch r.file at 0 for 4096 }
)",
                              options));
    Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(happens([&] { return running.chain().events == 1; }));
    running.stop();
    const auto all = running.server().report().explained;
    ASSERT_EQ(all.size(), 1u);
    EXPECT_TRUE(all[0].what.ends_with("/\\x1b[2J\\x0a\xc3\xa4\\xc2\\x9b\\xff\\x7f.col")) << all[0].what;
}

TEST(Events, APathThatTheClassDoesNotMatchIsNotOpened) {
    const Folder folder;
    const std::string named = column(folder, "a.col"), other = column(folder, "shadow");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain first on open(columns) as r { prefetch r.file at 0 for 4096 }
)"));
    Poster poster(running.region(), 0);
    drop_pages(named);
    drop_pages(other);
    ASSERT_TRUE(poster.opened(0, other));
    ASSERT_TRUE(poster.opened(0, named));
    EXPECT_TRUE(happens([&] { return pages_in_memory(named, 0, 1) == 1; }));
    EXPECT_EQ(pages_in_memory(other, 0, kColumnPages), 0u);
    EXPECT_EQ(running.chain().events, 1u);
    running.stop();
    const auto notes = running.server().report().notes;
    EXPECT_EQ(std::ranges::count(
                  notes, "a file was left alone: the path does not match the class's pattern ('" + other + "')"),
              1);
}

// A program that may not read a file may hold a descriptor of it all the same, and post what it likes.
TEST(Events, AReadOfAFileOutsideTheClassIsRefusedEachTime) {
    const Folder folder;
    const std::string named = column(folder, "a.col"), other = column(folder, "shadow");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r { prefetch r.file at 0 for 4096 }
)"));
    Poster poster(running.region(), 0);
    drop_pages(named);
    drop_pages(other);
    const int held = open(other.c_str(), O_PATH | O_CLOEXEC);
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(poster.read(0, other, kScan, kPage));
        ASSERT_TRUE(happens([&] { return poster.taken(); }));
        std::this_thread::sleep_for(std::chrono::milliseconds(60));  // until it would look for the file anew
    }
    close(held);
    ASSERT_TRUE(poster.opened(0, named));
    ASSERT_TRUE(poster.read(0, named, kScan, kPage));
    EXPECT_TRUE(happens([&] { return pages_in_memory(named, 0, 1) == 1; }));
    EXPECT_EQ(pages_in_memory(other, 0, kColumnPages), 0u);
    EXPECT_EQ(running.chain().events, 1u);
    running.stop();
    const auto notes = running.server().report().notes;
    EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
        return note == "a file was left alone: the path does not match the class's pattern";
    }));
}

TEST(Events, WhatAProgramHasClosedTheServerClosesBeforeWhatAProgramHasOpen) {
    const Folder folder;
    const std::string open = column(folder, "a.col"), closed = column(folder, "b.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" }
chain more on read(columns) as r { prefetch r.file at 0 for 4096 }
)"));
    Poster poster(running.region(), 0);
    for (const auto& path : {open, closed}) {
        ASSERT_TRUE(poster.opened(0, path));
        ASSERT_TRUE(poster.read(0, path, kScan, kPage));
        ASSERT_TRUE(happens([&] { return held_here(path); }));
    }
    ASSERT_TRUE(poster.closed(0, closed));
    EXPECT_TRUE(happens([&] { return !held_here(closed); }));
    EXPECT_TRUE(held_here(open)) << "though it was used before the other";
}

TEST(Events, OfAFileThatIsReadPastThePageCacheItReadsNothingAhead) {
    const Folder folder;
    const std::string direct = column(folder, "a.col"), buffered = column(folder, "b.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" { immutable } }
chain again on read(columns) as r { when r.file.read_ahead == 0 { prefetch r.file at r.offset for r.total } }
)"));
    Poster poster(running.region(), 0);
    drop_pages(buffered);
    ASSERT_TRUE(until_settled(direct));
    ASSERT_TRUE(poster.opened(0, buffered));
    ASSERT_TRUE(poster.opened(0, direct, O_DIRECT));
    ASSERT_TRUE(poster.read(0, buffered, 0, kPage));
    ASSERT_TRUE(poster.direct(0, direct, 0, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().fetches == 1; }));
    EXPECT_EQ(running.chain().events, 2u);
    EXPECT_EQ(pages_in_memory(buffered, 0, kColumnPages), 0u);
    EXPECT_NE(running.region().served, 0u);
}

// Another program may have opened it otherwise since.
TEST(Events, WhereToIsFetchedGoesByHowAFileWasReadLast) {
    constexpr std::uint32_t kFarOff = 64 * kPage;
    const Folder folder;
    const std::string path = column(folder, "a.col");
    Running running(server_of(R"(
app columns { files columns = "*.col" { immutable } }
chain further on read(columns) as r { prefetch r.file at r.offset + 256KiB for 4096 }
)"));
    Poster poster(running.region(), 0);
    drop_pages(path);
    ASSERT_TRUE(until_settled(path));
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.opened(0, path, O_DIRECT));
    ASSERT_TRUE(poster.closed(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, kFarOff / kPage, 1) == 1; }));
    ASSERT_TRUE(poster.read(0, path, kFarOff, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().hits + running.chain().late == 1; }));
    EXPECT_EQ(running.region().served, 0u);

    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.direct(0, path, 3 * kFarOff, kPage));
    EXPECT_TRUE(happens([&] { return running.region().served != 0; }));
    EXPECT_TRUE(happens([&] { return running.chain().fetches == 3; }));
    EXPECT_EQ(pages_in_memory(path, 4 * kFarOff / kPage, 1), 0u);
}

TEST(Events, TellsOfEventsThatItHasNotSeen) {
    Running running(server_of(kPointers));
    running.region().stats.lost_events = 3;
    running.region().stats.bad_events = 4;
    running.stop();
    const auto notes = running.server().report().notes;
    EXPECT_EQ(std::ranges::count(notes, "3 events found no room in their rings"), 1);
    EXPECT_EQ(std::ranges::count(notes, "4 events could not be understood"), 1);
}

TEST(Events, TellsOfThreadsThatFoundNoRing) {
    Running running(server_of(kPointers));
    running.region().stats.no_ring = 3;
    running.stop();
    const auto notes = running.server().report().notes;
    EXPECT_EQ(
        std::ranges::count(notes, "3 events were not posted: their threads found no free ring, or no memory for one"),
        1);
}

// What is read past the page cache gains nothing by what is fetched into it, whatever chain asks for that.
TEST(Events, NothingIsFetchedOfWhatIsOnlyReadPastThePageCache) {
    const Folder folder;
    const std::string bytes(8 * std::size_t{kPage}, 'x');
    const std::string index = folder.write("a.ndx", bytes), records = folder.write("a.dat", bytes);
    drop_pages(records);
    Running running(server_of(R"(
app records { files index = "*.ndx"  files records = "*.dat" }
chain follow on read(index) as r { prefetch records.sibling(r, ".dat") at r.offset for 4096 }
)"));
    Poster poster(running.region(), 0);
    std::uint64_t page = 0;
    const auto fetches_at_next = [&] {
        const std::uint64_t before = running.chain().fetches, refused = running.chain().dropped;
        EXPECT_TRUE(poster.read(0, index, page++ * kPage, kPage));
        EXPECT_TRUE(happens([&] { return running.chain().fetches + running.chain().dropped > before + refused; }));
        return running.chain().fetches - before;
    };
    ASSERT_TRUE(poster.opened(0, index));
    EXPECT_EQ(fetches_at_next(), 1u);
    ASSERT_TRUE(poster.opened(1, records, O_DIRECT));
    EXPECT_EQ(fetches_at_next(), 0u);
    EXPECT_EQ(fetches_at_next(), 0u);
    ASSERT_TRUE(poster.opened(1, records));
    EXPECT_EQ(fetches_at_next(), 1u) << "somebody else reads it otherwise";
    ASSERT_TRUE(poster.opened(1, records, O_DIRECT));
    EXPECT_EQ(fetches_at_next(), 0u);
    ASSERT_TRUE(poster.read(1, records, 0, kPage, 500));
    EXPECT_EQ(fetches_at_next(), 1u) << "and that was open already";
    ASSERT_TRUE(poster.opened(1, records, O_DIRECT));
    EXPECT_EQ(fetches_at_next(), 0u);
    ASSERT_TRUE(poster.begun(1, records, 0, kPage));
    EXPECT_EQ(fetches_at_next(), 1u);
    running.stop();
    EXPECT_EQ(running.chain().dropped, 4u);
    EXPECT_EQ(std::ranges::count(running.server().report().notes,
                                 "a range was not fetched 4 times: its file was opened with O_DIRECT, and nobody reads "
                                 "it through the page cache"),
              1);
}

}  // namespace
}  // namespace chainio::shadow::test
