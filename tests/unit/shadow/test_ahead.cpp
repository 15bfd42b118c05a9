#include "runtime/shadow/ahead.h"

#include <gtest/gtest.h>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/refusals.h"
#include "runtime/shadow/region.h"
#include "runtime/shadow/windows.h"
#include "tests/unit/shadow/asking.h"

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

// What a file's beginning takes to be touched first is only known to who looks when it has come.
TEST(Ahead, LooksAtTheBeginningOfAFileThatHasCome) {
    constexpr std::uint64_t kBytes = 4 << 20;
    constexpr unsigned kInFlight = 64;
    const Folder folder;
    const std::string name = folder.write("a.x", std::string(kBytes, 'x'));
    const auto spec = compiled("app web { files all = \"" + folder.path() + "/*\" { root \"" + folder.path() +
                               "\" } }\nchain some on open(all) as r { prefetch r.file at 0 for 4MiB }\n");
    const SpecPlan plan = *plan_of(spec->module());
    const auto region = RegionFile::create();
    ASSERT_TRUE(region) << region.error();
    Direct direct(region->get(), region->path(), 0);
    Files files(*spec, 8, 8);
    Score score(spec->module(), plan, region->get(), false);
    Ranges ranges({}, 1, score);
    metrics::Fallbacks fallbacks;
    Marks marks;
    const auto walks = Walks::create({spec, files, ranges, score, fallbacks, marks}, kInFlight, 1 << 20);
    ASSERT_TRUE(walks) << walks.error();
    Ahead ahead({plan, ranges, score, **walks, direct}, {{4, 1}}, kInFlight);
    drop_pages(name);
    const auto file = files.under_root("a.x", 0, now_ns());
    ASSERT_TRUE(file) << refusal_text(file.error());
    Disk& disk = (*walks)->disk();
    if ((*file)->read_ahead < Windows::kLeast * kPageBytes || !(*file)->begins_reads)
        GTEST_SKIP() << "the kernel's windows hardly grow on this disk";
    ahead.ask_range(0, **file, 0, kBytes);
    ASSERT_TRUE(happens([&] { return ahead.advance() && ahead.idle(); }));
    EXPECT_TRUE(disk.first_touch().knows(FirstTouch::How::in_windows));
}

// Else it would never be closed, whoever wants its space or its file system.
TEST_F(Asking, NothingHoldsAFileOfWhichAllHasCome) {
    begin(16);
    ShadowFile& f = file("a.ptr", 32);
    f.begins_reads = false;  // so that the ring reads
    ask(f, 1);
    ask(f, 9, 2);
    ahead_->ask_walk(walk(f, 20));
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(f, 9, 2));
    EXPECT_EQ(f.pins, 0u);
    EXPECT_TRUE(files_.let_go_of_all());
    EXPECT_EQ(files_.open_count(), 0u);
}

// What was forgotten is nothing that a range beside it could be one with.
TEST_F(Asking, WhatIsAskedForBesideWhatWasForgottenIsFetched) {
    begin(16);
    ShadowFile& f = file("a.ptr", 32);
    ask(f, 1);
    ahead_->drop_waiting();
    EXPECT_EQ(ahead_->waiting(), 0u);
    ask(f, 2);
    EXPECT_EQ(ahead_->waiting(), 1u);
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(f, 2, 1));
    EXPECT_EQ(stats().fetched_bytes, kPage);
    ahead_->ask_range(kSlow, f, 3 * kPage + 100, 100);
    EXPECT_EQ(ahead_->waiting(), 1u) << "nor is what has begun";
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(f, 3, 1));
}

// Of a probe there are few requests, and a long range is as many as it has pieces.
TEST_F(Asking, OfALongRangeAsMuchIsFetchedAsTheGateAdmits) {
    begin(16, true);
    ShadowFile& f = file("a.ptr", 512);
    f.read_ahead = 1 << 20;
    for (int i = 0; i < 16; i++) {
        ASSERT_TRUE(score_->admit(kSlow));
        score_->cached(kSlow);
    }
    score_->update_gates(kMs);
    ASSERT_EQ(score_->gate(kSlow).state(), policy::Gate::State::off);
    score_->update_gates(5000 * kMs);
    ASSERT_EQ(score_->gate(kSlow).state(), policy::Gate::State::probing);
    for (unsigned i = 2; i < policy::GateOptions{}.probe_requests; i++) ASSERT_TRUE(score_->admit(kSlow));
    ask(f, 64, 256);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().fetched_bytes, 2 * kPiece);
}

// What a program goes through in steps is asked for with what lies behind it: most of that is known by then.
TEST_F(Asking, WhatIsKnownOfALongRangeIsNotFetchedAgain) {
    constexpr std::uint64_t kPages = kPiece / kPage;
    begin(16);
    ShadowFile& f = file("a.ptr", 8 * kPages);
    f.read_ahead = 1 << 20;
    ask(f, kPages, 2 * kPages);
    ASSERT_TRUE(all_comes());
    ask(f, 4 * kPages, kPages);
    ASSERT_TRUE(all_comes());
    ASSERT_EQ(stats().fetches, 3u);
    ask(f, 2 * kPages, 4 * kPages);  // known, new, known, new
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(f, kPages, 5 * kPages));
    EXPECT_EQ(stats().fetches, 5u);
    EXPECT_EQ(stats().fetched_bytes, 5 * kPiece);
    for (std::uint64_t i = 1; i <= 5; i++) ranges_->read(f.key, i * kPiece, kPiece, {});
    ranges_->end();
    EXPECT_EQ(stats().hits, 5u);
    EXPECT_EQ(stats().wasted, 0u);
}

// The first piece may be longer than any other, and what is left of it is no first one.
TEST_F(Asking, AFilesFirstPieceOfWhichSomeIsKnownIsFetchedToItsEnd) {
    constexpr std::uint64_t kPages = kPiece / kPage;
    begin(16);
    ShadowFile& f = file("a.ptr", 12 * kPages);
    f.read_ahead = 1 << 20;
    ask(f, 0, kPages);
    ASSERT_TRUE(all_comes());
    ask(f, 0, 12 * kPages);
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(f, 0, 12 * kPages));
    EXPECT_EQ(stats().fetched_bytes, 12 * kPiece);
    EXPECT_EQ(stats().dropped, 0u);
}

}  // namespace
}  // namespace chainio::shadow::test
