// What has failed, or never ends, and what is told of it at the end of a run.
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "bpf-templates/chainio_step.h"
#include "runtime/shadow/outcomes.h"
#include "tests/support/refused_call.h"
#include "tests/unit/shadow/asking.h"
#include "tests/unit/shadow/kernel.h"

namespace chainio::shadow::test {
namespace {

// The server's descriptors are this process's.
int descriptor_of(const std::string& path) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry.path(), gone) != path) continue;
        const std::string name = entry.path().filename();
        int fd = -1;
        std::from_chars(name.data(), name.data() + name.size(), fd);
        return fd;
    }
    return -1;
}

TEST(Failed, FetchesAreToldOf) {
    const Folder folder;
    const std::string path =
        std::filesystem::canonical(folder.write("a.ptr", std::string(std::size_t{64} * kPage, 'x')));
    Running running(server_of(R"(
app ahead { files data = "*.ptr" }
chain further on read(data) as r { prefetch r.file at r.offset + r.length for 4096 }
)"));
    drop_pages(path);
    tests::Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(poster.read(0, path, 0, kPage));
    ASSERT_TRUE(happens([&] { return running.chain().fetches == 1; }));
    const int fd = descriptor_of(path), unreadable = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(dup3(unreadable, fd, O_CLOEXEC), fd);
    close(unreadable);
    ASSERT_TRUE(poster.read(0, path, 32 * kPage, kPage));
    ASSERT_TRUE(happens([&] { return running.chain().fetches == 2; }));
    running.stop();
    const auto notes = running.server().report().notes;
    EXPECT_EQ(std::ranges::count(notes, "1 range could not be read (" + path + "): " + std::strerror(EBADF)), 1);
    EXPECT_EQ(running.chain().wasted, 1u) << "of what failed nobody could have read";
}

// A record that is wrong by one field is told from a chain that has nothing to do by nothing else.
TEST(Failed, AChainThatFailsAtAllEventsIsToldOfWithTheOutcome) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", std::string(std::size_t{64} * kPage, 'x'));
    Running running(server_of(R"(
app ahead { files data = "*.ptr" }
record Page { magic: u8 == 7  next: u32le }
record Other { magic: u8 == 120  next: u32le }
chain further on read(data) as r { prefetch r.file at r.record(Page).next for 4096 }
chain beside on read(data) as r { if r.record(Other).next == 0 { prefetch r.file at 0 for 4096 } }
)"));
    tests::Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    for (unsigned i = 0; i < 3; i++) ASSERT_TRUE(poster.read(0, path, std::uint64_t{i} * kPage, kPage));
    ASSERT_TRUE(happens([&] { return running.chain().failed == 3 && running.chain(1).events == 3; }));
    running.stop();
    const auto notes = running.server().report().notes;
    EXPECT_EQ(
        std::ranges::count(notes, "chain 'further' ended with malformed at 3 of 3 events; `chainio test` shows where"),
        1);
    EXPECT_EQ(std::ranges::count_if(notes, [](const std::string& note) { return note.contains("beside"); }), 0);
}

TEST(Failed, OfSeveralOutcomesTheMostFrequentIsNamed) {
    constexpr std::uint64_t kRuns = 32;
    Outcomes outcomes(3, 1);
    const auto note = [&](std::uint32_t chain, std::uint64_t runs, std::uint64_t failed) {
        return outcomes.note(chain, "c", runs, failed, {"stale"});
    };
    for (unsigned i = 0; i < 20; i++) outcomes.add(0, CIO_USER);
    for (unsigned i = 0; i < 10; i++) outcomes.add(0, CIO_MALFORMED);
    EXPECT_EQ(note(0, kRuns, 30),
              "chain 'c' failed at 30 of 32 events, at 20 of them with stale; `chainio test` shows where");
    EXPECT_EQ(note(0, kRuns, 29), "") << "one in sixteen may go well, and more are reason to think that it works";
    EXPECT_EQ(note(1, 2, 2), "chain 'c' failed at 2 of 2 events; `chainio test` shows where")
        << "of those that the program has run itself the outcome is not known";
    outcomes.add(2, 0xffffffff);
    EXPECT_EQ(note(2, 1, 1),
              "chain 'c' ended with outcomes without a name at its only event; `chainio test` shows where");
    EXPECT_EQ(note(2, 0, 0), "");
}

TEST(Failed, OneEventIsNotCalledSeveral) {
    Running running(server_of(kPointers));
    shim::Stats& stats = running.region().stats;
    stats.lost_events = stats.no_ring = stats.bad_events = 1;
    running.stop();
    const auto notes = running.server().report().notes;
    for (const char* note : {"1 event found no room in its ring", "1 event could not be understood",
                             "1 event was not posted: its thread found no free ring, or no memory for one"})
        EXPECT_EQ(std::ranges::count(notes, note), 1) << note;
}

TEST_F(Asking, AReadOfAWalkThatIsTriedAgainHasNotFailed) {
    begin(16);
    constexpr std::uint64_t kFile = 0;  // of an engine's slot that no file is in
    const engine::ReadOp read{.offset = 0, .data = nullptr, .length = kPage, .file = 0, .token = 0, .user_data = 0};
    for (const int again : {EAGAIN, EINTR}) {
        walks_->read_done(walks_->read_begins(read), -again);
        EXPECT_EQ(ranges_->known(kFile, 0, kPage), Ranges::Known::none) << "what comes of the next try counts";
        EXPECT_EQ(stats().fetches, 0u);
        EXPECT_EQ(stats().fetched_bytes, 0u);
    }
    EXPECT_EQ(score_->failures().failed().ranges, 0u);
    walks_->read_done(walks_->read_begins(read), -EIO);
    EXPECT_EQ(score_->failures().failed().ranges, 1u);
    EXPECT_EQ(stats().fetches, 1u);
    EXPECT_EQ(stats().fetched_bytes, kPage);
}

// What the program has read meanwhile has an outcome, and so has what comes of the next try.
TEST_F(Asking, AReadOfAWalkThatIsTriedAgainCountsAsOftenAsItHasAnOutcome) {
    begin(16);
    constexpr std::uint64_t kFile = 0;
    const engine::ReadOp read{.offset = 0, .data = nullptr, .length = kPage, .file = 0, .token = 0, .user_data = 0};
    const std::uint32_t first = walks_->read_begins(read);
    EXPECT_TRUE(ranges_->read(kFile, 0, kPage, {}));
    walks_->read_done(first, -EAGAIN);
    walks_->read_done(walks_->read_begins(read), kPage);
    ranges_->end();
    EXPECT_EQ(stats().fetches, 2u);
    EXPECT_EQ(stats().hits + stats().late + stats().wasted, 2u);
}

// An engine tries no read for ever.
TEST_F(Asking, AReadOfAWalkThatIsTriedInVainIsToldOf) {
    const ReadsNowAre none(ReadsNow::never);  // which would bring into memory what the next try finds there
    ShadowFile& f = file("a.ptr", 16);
    std::thread refused([&] {
        tests::refuse_call(SYS_io_uring_setup, EPERM);
        begin(16);
        tests::refuse_call(SYS_pread64, EAGAIN);
        ahead_->ask_walk(walk(f, 3));
        ASSERT_TRUE(all_comes());
    });
    refused.join();
    EXPECT_EQ(walks_->outcomes()[CIO_IO_ERROR], 1u);
    EXPECT_EQ(stats().fetches, 1u);
    EXPECT_EQ(stats().fetched_bytes, kPage);
    EXPECT_EQ(Failures::note(score_->failures().failed(), f.path),
              "1 range could not be read (" + f.path + "): " + std::strerror(EAGAIN));
    EXPECT_EQ(ranges_->count(), 0u);
}

// Else its file would stay open for ever.
TEST_F(Asking, WhatWaitsWhenTheRingFailsCanBeDropped) {
    constexpr std::uint64_t kLong = Ahead::kMostUnderWay / kPage + 100;
    begin(128);
    ShadowFile &large = file("large.ptr", kLong), &f = file("a.ptr", 200);
    f.begins_reads = false;
    ask(large, 0, kLong);
    for (std::uint64_t page = 0; page < 100; page += 2) ask(f, page);
    std::thread refused([&] {
        tests::refuse_call(SYS_io_uring_register, EPERM);
        EXPECT_FALSE(ahead_->advance());
    });
    refused.join();
    EXPECT_EQ(large.waiting, 1u);
    ahead_->drop_waiting();
    EXPECT_EQ(large.waiting + f.waiting, 0u);
}

// As where there is no memory for a call. The server still hears of what is deleted, and takes no more of a processor
// than one that has nothing to do.
TEST(Failed, ARingTakesNeitherAProcessorNorKeepsFilesOpen) {
    constexpr unsigned kSleeps = 20;
    constexpr std::uint64_t kShortest = 10 * kMs;
    const ReadsNowAre none(ReadsNow::never);  // else a quick disk has the page before the ring is asked
    const Folder folder;
    const std::string path = folder.write("a.ptr", std::string(std::size_t{64} * kPage, 'x'));
    drop_pages(path);
    const auto server = server_of(R"(
app asking { files data = "*.ptr" }
record Page { count: u32le }
chain at(db: file data, page: u32) -> u8 hops 2 { step there(p: Page at page * 4096 for 4096 in db) { return 1 } }
chain follow on read(data) as r { prefetch via at(r.file, 40) }
)");
    ASSERT_NE(server, nullptr);
    const tests::MappedRegion mapped(server->region_path());
    shim::Region& region = *mapped.get();
    std::atomic<bool> ends{false};
    std::thread thread([&] {
        tests::refuse_call(SYS_io_uring_enter, EPERM);
        EXPECT_TRUE(server->run([&] { return ends.load(); }));
    });
    tests::Poster poster(region, 0);
    EXPECT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return region.stats.chains[0].fetches == 1; })) << "of the walk";
    std::filesystem::remove(path);
    const std::uint32_t asked = region.removals.fetch_add(1) + 1;
    EXPECT_TRUE(happens([&] { return region.let_go == asked; })) << "the file is closed";
    EXPECT_TRUE(happens([&] { return region.holds_files == 0; }));
    const std::uint64_t wakes = region.stats.wakes, before = now_ns();
    EXPECT_TRUE(happens([&] { return region.stats.wakes > wakes + kSleeps; }));
    EXPECT_GE(now_ns() - before, kSleeps * kShortest);
    ends = true;
    thread.join();
    const auto notes = server->report().notes;
    EXPECT_EQ(std::ranges::count(
                  notes, "nothing was fetched after an error of the ring: io_uring_enter: Operation not permitted"),
              1);
}

std::uint64_t cpu_ns(clockid_t clock) {
    timespec used{};
    EXPECT_EQ(clock_gettime(clock, &used), 0);
    return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(used.tv_nsec);
}

// As of a disk that hangs: what does not end is waited for, and that takes no processor from others.
TEST(Failed, AtTheEndTheServerSleepsUntilWhatIsUnderWayHasEnded) {
    const Folder folder;
    const std::string path =
        std::filesystem::canonical(folder.write("a.ptr", std::string(std::size_t{64} * kPage, 'x')));
    drop_pages(path);
    const auto server = server_of(R"(
app ahead { files data = "*.ptr" }
chain further on read(data) as r { prefetch r.file at r.offset + r.length for 4096 }
)");
    ASSERT_NE(server, nullptr);
    const tests::MappedRegion region(server->region_path());
    std::atomic<bool> ends{false};
    std::uint64_t used = 0;
    std::thread thread([&] {
        std::uint64_t before = 0;
        EXPECT_TRUE(server->run([&] {
            before = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
            return ends.load();
        }));
        used = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    });
    tests::Poster poster(*region.get(), 0);
    EXPECT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return region->stats.chains[0].fetches == 1; }));
    int pipe[2];
    EXPECT_EQ(pipe2(pipe, O_CLOEXEC), 0);
    EXPECT_GE(dup3(pipe[0], descriptor_of(path), O_CLOEXEC), 0);
    EXPECT_TRUE(poster.read(0, path, 32 * kPage, kPage));
    EXPECT_TRUE(happens([&] { return region->stats.chains[0].fetches == 2; }));
    ends = true;
    thread.join();
    for (const int end : pipe) close(end);
    EXPECT_LT(used, 500 * kMs);
    EXPECT_EQ(std::ranges::count(server->report().notes,
                                 "fetches that had not ended a second after the program were given up (1 times)"),
              1);
}

// As of a disk that hangs. How long a fetch takes is worth a moment of a processor and no more.
TEST_F(Asking, AFetchThatNeverEndsKeepsTheServerAwakeForAMoment) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    f.begins_reads = false;
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ASSERT_EQ(dup3(ends[0], f.fd, O_CLOEXEC), f.fd);
    ask(f, 3);
    const std::uint64_t before = now_ns();
    step();
    const bool hurries = ahead_->hurries();
    if (now_ns() - before < 100 * kMs) EXPECT_TRUE(hurries);
    EXPECT_TRUE(happens([&] { return !ahead_->hurries(); }));
    EXPECT_EQ(ahead_->in_flight(), 1u);
    for (const int end : ends) close(end);
    EXPECT_TRUE(all_comes());
}

}  // namespace
}  // namespace chainio::shadow::test
