// What becomes of what chains ask for, step by step, without a server's thread: what is fetched and what is not, in
// which order, and how much at a time.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <thread>
#include <tuple>

#include "tests/support/refused_call.h"
#include "tests/unit/shadow/asking.h"

namespace chainio::shadow::test {
namespace {

TEST_F(Asking, WhatIsUnderWayIsNotFetchedAgain) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    ask(f, 3);
    ask(f, 3);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().fetches, 1u);
    EXPECT_EQ(stats().duplicate, 1u);
    ask(f, 2, 3);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().fetches, 2u) << "of these pages it was only the second";
    EXPECT_TRUE(in_memory(f, 2, 3));
    EXPECT_EQ(in_memory_besides(f.path, 16, {{2, 3}}), 0u);
}

TEST_F(Asking, EachPageThatARangeTouchesIsFetchedAndNoOther) {
    begin(16);
    ShadowFile &odd = file("odd.ptr", 32), &large = file("large.ptr", 512);
    ahead_->ask_range(kSlow, odd, 3 * kPage + 100, kPage);
    ahead_->ask_range(kSlow, odd, 20 * kPage, 1);
    ask(large, 5, 256);
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(odd, 3, 2) && in_memory(odd, 20, 1));
    EXPECT_EQ(in_memory_besides(odd.path, 32, {{3, 2}, {20, 1}}), 0u);
    EXPECT_TRUE(in_memory(large, 5, 256));
    EXPECT_EQ(in_memory_besides(large.path, 512, {{5, 256}}), 0u);
    EXPECT_EQ(stats().fetched_bytes, 100 + kPage + 1 + 256 * kPage);
}

TEST_F(Asking, WhatIsAskedForBesideTheLastIsOneWithItForTheSameChainAndFileOnly) {
    begin(16);
    ShadowFile &f = file("f.ptr", 32), &g = file("g.ptr", 32), &h = file("h.ptr", 32);
    const auto waits = [&](ShadowFile& file, std::uint64_t page, std::uint32_t chain) {
        ask(file, page, 1, chain);
        return ahead_->waiting();
    };
    EXPECT_EQ(waits(f, 1, kSlow), 1u);
    EXPECT_EQ(waits(f, 2, kSlow), 1u);
    EXPECT_EQ(waits(f, 3, kQuick), 2u);
    EXPECT_EQ(waits(g, 4, kQuick), 3u);
    EXPECT_EQ(waits(g, 5, kQuick), 3u);
    ahead_->ask_walk(walk(g, 20));
    EXPECT_EQ(waits(g, 6, kQuick), 5u) << "behind the walk";
    ask(h, 1, 3);
    EXPECT_EQ(waits(h, 2, kSlow), 7u);
    g.served = true;
    EXPECT_EQ(waits(g, 8, kQuick), 8u);
    EXPECT_EQ(waits(g, 9, kQuick), 9u) << "what is served comes in frames of its own";
    g.served = false;
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(h, 1, 3)) << "a page of what was asked for before makes that no shorter";
}

TEST_F(Asking, NoMoreThanSoMuchIsFetchedAtOneRequest) {
    begin(128);
    constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
    ShadowFile& f = file("sparse.ptr", 1);
    ASSERT_EQ(truncate(f.path.c_str(), static_cast<off_t>(kMost + 4 * kPage)), 0);
    ahead_->ask_range(kSlow, f, kPage, 0);
    EXPECT_EQ(stats().dropped, 1u);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().fetched_bytes, kMost);
}

TEST_F(Asking, BehindTheEndOfAFileAsItIsByThenNothingIsFetched) {
    begin(16);
    ShadowFile& f = file("a.ptr", 4);
    ask(f, 4);
    EXPECT_EQ(stats().dropped, 1u);
    ASSERT_EQ(truncate(f.path.c_str(), 8 * kPage), 0);
    ask(f, 6, 100);
    EXPECT_EQ(stats().dropped, 1u) << "it has grown";
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().fetched_bytes, 2 * kPage);
    ASSERT_EQ(truncate(f.path.c_str(), 2 * kPage), 0);
    ask(f, 8);
    ask(f, 5);
    EXPECT_EQ(stats().dropped, 3u) << "it is shorter again";
    EXPECT_TRUE(ahead_->idle());
}

TEST_F(Asking, TheMoreUrgentComesFirstAndThenWhatWasAskedForFirst) {
    begin(1);
    ShadowFile& f = file("a.ptr", 64);
    ask(f, 10);
    ask(f, 20);
    ask(f, 30, 1, kQuick);
    step();
    EXPECT_TRUE(known(f, 30) && !known(f, 10) && !known(f, 20));
    ASSERT_TRUE(happens([&] {
        step();
        return known(f, 10) || known(f, 20);
    }));
    EXPECT_TRUE(known(f, 10) && !known(f, 20));
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(known(f, 20));
}

// What is opened has come first, of what is foretold the nearest.
TEST_F(Asking, WhatAThreadComesToFirstComesFirst) {
    begin(1);
    ShadowFile& f = file("a.ptr", 64);
    ahead_->ask_range(kQuick, f, 10 * kPage, kPage, 2);
    ahead_->ask_range(kSlow, f, 20 * kPage, kPage, 1);
    ahead_->ask_range(kSlow, f, 30 * kPage, kPage);
    step();
    EXPECT_TRUE(known(f, 30) && !known(f, 10) && !known(f, 20));
    ASSERT_TRUE(happens([&] {
        step();
        return known(f, 10) || known(f, 20);
    }));
    EXPECT_TRUE(known(f, 20) && !known(f, 10));
    ASSERT_TRUE(all_comes());
}

TEST_F(Asking, WhatAThreadHasComeToIsNoLongerFarAway) {
    begin(1);
    ShadowFile &near = file("a.ptr", 64), &far = file("b.ptr", 64);
    ahead_->ask_range(kSlow, near, 10 * kPage, kPage, 2);
    ahead_->ask_range(kSlow, far, 20 * kPage, kPage, 4);
    ahead_->ask_range(kSlow, far, 40 * kPage, kPage, 4);
    ahead_->comes_nearer(far, 1);
    ahead_->comes_nearer(far, 3);
    step();
    EXPECT_TRUE(known(far, 20) && !known(near, 10));
    ahead_->comes_nearer(near, 0);
    ASSERT_TRUE(happens([&] {
        step();
        return known(near, 10) || known(far, 40);
    }));
    EXPECT_TRUE(known(near, 10) && !known(far, 40));
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(near.waiting + far.waiting, 0u);
}

TEST_F(Asking, WalksOfWhatIsForetoldComeBehindAllOthersAsWell) {
    begin(1);
    ShadowFile& f = file("a.ptr", 64);
    ahead_->ask_walk(walk(f, 30), 2);
    ahead_->ask_range(kSlow, f, 10 * kPage, kPage, 1);
    step();
    EXPECT_TRUE(known(f, 10));
    EXPECT_EQ(stats().walks, 0u);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().walks, 1u);
}

TEST_F(Asking, WhatIsShortDoesNotWaitBehindWhatIsLong) {
    constexpr std::uint64_t kLong = Ahead::kMostUnderWay / kPage + 100;
    begin(128);
    ShadowFile& f = file("a.ptr", kLong + 20);
    ask(f, 0, kLong);
    ask(f, kLong + 10);
    ahead_->ask_walk(walk(f, kLong + 15));
    step();
    EXPECT_TRUE(known(f, 0) && !known(f, kLong - 1));
    EXPECT_TRUE(known(f, kLong + 10));
    EXPECT_EQ(stats().walks, 1u);
    EXPECT_EQ(ahead_->waiting(), 1u);
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(in_memory(f, 0, kLong));
}

// Whether anybody hears of them or not; and each of them comes.
TEST_F(Asking, NoMoreBytesOfLongReadsAreUnderWayThanMayBe) {
    constexpr std::uint64_t kPages = 700;
    begin(128);
    std::vector<Seen> seen;
    for (unsigned i = 0; i < 12; i++) {
        ShadowFile& f = file(std::to_string(i) + ".ptr", kPages);
        seen.emplace_back(f.path, Pages{i % 3, kPages - 2});
        f.read_ahead = Devices{}.of(f.device, f.fd, f.size).read_ahead;
        f.begins_reads = f.begins_reads && i % 4 != 0;
        ask(f, i % 3, kPages - 2);
    }
    std::uint64_t most = 0;
    EXPECT_TRUE(happens([&] {
        const auto state = [&] {
            return std::tuple(ahead_->waiting(), ahead_->in_flight(), ahead_->bytes_under_way(),
                              stats().fetched_bytes.load());  // of pieces that begin and end in one step
        };
        const auto before = state();
        const auto moved = ahead_->advance();
        EXPECT_TRUE(moved) << moved.error();
        if (state() == before && !ahead_->idle()) EXPECT_FALSE(*moved) << "else the server would never sleep";
        most = std::max(most, ahead_->bytes_under_way());
        for (Seen& each : seen) each.all();
        return ahead_->idle();
    }));
    EXPECT_LT(most, Ahead::kMostUnderWay + kPages * kPage);
    EXPECT_EQ(stats().fetched_bytes, seen.size() * (kPages - 2) * kPage);
    for (unsigned i = 0; i < seen.size(); i++) EXPECT_TRUE(happens([&] { return seen[i].all(); })) << i;
    EXPECT_LE(ahead_->bytes_under_way(), Unheard::kBytesInARow);
}

TEST_F(Asking, FetchesAndWalksTogetherAreNoMoreThanMayBeUnderWay) {
    constexpr unsigned kMost = 8, kEach = 60;
    begin(kMost);
    ShadowFile &f = file("f.ptr", 2 * kEach), &g = file("g.ptr", 2 * kEach), &large = file("large.ptr", 1024);
    for (unsigned i = 0; i < kEach; i++) {
        ask(f, 2 * i, 1, kQuick);
        ahead_->ask_walk(walk(g, 2 * i));
        if (i % 20 == 2) ask(large, i / 20 * 300, 300, kQuick);
    }
    unsigned most = 0;
    EXPECT_TRUE(happens([&] {
        step();
        most = std::max(most, ahead_->under_way());
        return ahead_->idle();
    }));
    EXPECT_LE(most, kMost);
    EXPECT_EQ(stats().walks, kEach);
    EXPECT_EQ(stats(kQuick).fetched_bytes, (kEach + 3 * 300) * kPage);
}

// Else it sleeps on when a read ends.
TEST_F(Asking, TheServerIsInAHurryWhileSomethingGoesOnWhenAReadEnds) {
    begin(1);
    ShadowFile &f = file("a.ptr", 16), &large = file("large.ptr", 64);
    f.begins_reads = large.begins_reads = false;
    ask(f, 3);
    ask(f, 9);
    step();
    EXPECT_TRUE(ahead_->hurries()) << "the second waits for the first";
    ASSERT_TRUE(all_comes());
    EXPECT_FALSE(ahead_->hurries());
    ask(large, 0, 64);
    step();
    if (!ahead_->idle()) EXPECT_TRUE(ahead_->hurries()) << "it is read piece by piece";
    ASSERT_TRUE(all_comes());
    EXPECT_FALSE(ahead_->hurries());
}

// When it has come is not known: nobody has looked.
TEST_F(Asking, HowLongAFetchTookIsNotTakenFromOneThatEndedWhileTheServerSlept) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    f.begins_reads = false;
    const auto saved_by_a_hit = [&](std::uint64_t page, bool sleeps) {
        ask(f, page);
        EXPECT_TRUE(happens([&] {
            if (sleeps) ahead_->has_slept();
            step();
            return ahead_->idle();
        }));
        score_->expect_saving(0, 0, false, false);
        EXPECT_TRUE(ranges_->read(f.key, page * kPage, kPage, {}));
        return stats().saved_ns.load();
    };
    for (const std::uint64_t page : {1, 3, 5, 7}) EXPECT_EQ(saved_by_a_hit(page, true), 0u);
    for (const std::uint64_t page : {9, 11, 13}) EXPECT_EQ(saved_by_a_hit(page, false), 0u) << "so few say too little";
    EXPECT_GT(saved_by_a_hit(15, false), 0u);
}

// Most fetches end while the server sleeps: of some it has to hear, or it could not say what a hit saves.
TEST_F(Asking, TheServerWaitsForItsFirstFetches) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    f.begins_reads = false;
    for (int i = 0; i < 3; i++) score_->fetch_took(1000);
    ask(f, 3);
    const std::uint64_t before = now_ns();
    step();
    const bool is_idle = ahead_->idle(), hurries = ahead_->hurries();
    if (now_ns() - before < 100 * kMs) EXPECT_TRUE(is_idle || hurries);
    ASSERT_TRUE(all_comes());
    score_->fetch_took(1000);
    ask(f, 9);
    step();
    EXPECT_FALSE(ahead_->hurries());
    ASSERT_TRUE(all_comes());
}

// Of what is longer than its read-ahead the kernel may begin less.
TEST_F(Asking, WhatIsLongerThanTheKernelReadsAheadIsHeardOf) {
    begin(128);
    ShadowFile& f = file("a.ptr", 64);
    if (!f.begins_reads) GTEST_SKIP() << "this file system makes who begins a read wait";
    f.read_ahead = 4 * kPage;
    ask(f, 0, 5);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(ahead_->under_way(), 0u);
    ask(f, 20, 4);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(ahead_->under_way(), 1u) << "nobody has heard of its end";
}

// A disk is quicker with few long reads, which the ring would copy.
TEST_F(Asking, WhatIsOnlyBegunIsBegunInLongPieces) {
    constexpr std::uint64_t kKib = 1024, kMib = 1024 * kKib, kPages = 512;
    begin(1);  // so that one piece is under way at a time
    ShadowFile& first_one = file("a.ptr", 1);
    if (!first_one.begins_reads) GTEST_SKIP() << "this file system makes who begins a read wait";
    if (Devices{}.of(first_one.device, first_one.fd, first_one.size).read_ahead < 2 * kMib)
        GTEST_SKIP() << "the kernel reads less than 2 MiB ahead on this disk";
    unsigned asked = 0;  // no file twice: what is known of the ranges of one is not fetched again
    // Of pieces that all end in the step in which they begin, nothing is seen: another file is asked for.
    const auto longest = [&](std::uint64_t first, std::uint64_t read_ahead, bool begins_reads = true) {
        std::uint64_t most = 0;
        EXPECT_TRUE(happens([&] {
            const std::string name = std::to_string(asked++) + ".ptr";
            ShadowFile& f = file(name, first + kPages);
            f.read_ahead = read_ahead;
            f.begins_reads = begins_reads;
            ask(f, first, kPages);
            EXPECT_TRUE(happens([&] {
                step();
                most = std::max(most, ahead_->bytes_under_way());
                return ahead_->idle();
            }));
            EXPECT_TRUE(in_memory(f, first, kPages));
            std::filesystem::remove(folder_.path() + "/" + name);
            return most != 0;
        }));
        return most;
    };
    EXPECT_EQ(longest(0, 8 * kMib), 2 * kMib) << "from the begin, in windows that grow";
    EXPECT_EQ(longest(512, 8 * kMib), 1 * kMib);
    EXPECT_EQ(longest(512, 512 * kKib), 512 * kKib) << "no longer than the kernel reads ahead";
    EXPECT_EQ(longest(512, 128 * kKib), 256 * kKib) << "by the ring";
    EXPECT_EQ(longest(512, 8 * kMib, false), 256 * kKib);
    EXPECT_EQ(stats().fetches, asked * 8) << "a long one counts as so many as it has ranges";
}

// A probe learns from few: of long pieces no more go out than of short ones, and nothing is concluded from the first.
TEST_F(Asking, AProbeCountsTheRangesOfALongPiece) {
    constexpr std::uint64_t kPause = 1'000'000'000, kPages = 2048;
    begin(128, true);
    std::vector<ShadowFile*> files;
    for (const char* name : {"a.ptr", "b.ptr", "c.ptr"}) {
        ShadowFile& f = *files.emplace_back(&file(name, kPages));
        f.read_ahead = Devices{}.of(f.device, f.fd, f.size).read_ahead;
        if (!f.begins_reads || f.read_ahead < 128 * 1024) GTEST_SKIP() << "nothing long is begun on this disk";
    }
    for (unsigned i = 0; i < policy::GateOptions{}.least_in_memory; i++)
        if (score_->admit(kSlow)) score_->cached(kSlow);
    const std::uint64_t now = now_ns();
    score_->update_gates(now);
    ASSERT_EQ(score_->gate(kSlow).state(), policy::Gate::State::off);
    score_->update_gates(now + kPause);
    ASSERT_EQ(score_->gate(kSlow).state(), policy::Gate::State::probing);
    score_->ran(kSlow, true, true);  // what was asked for before says nothing about the probe
    for (ShadowFile* f : files) ask(*f, 0, kPages);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().fetches, policy::GateOptions{}.probe_requests);
    EXPECT_FALSE(known(*files[2], 0));
    for (const std::uint64_t page : {0, 1024}) ranges_->read(files[0]->key, page * kPage, kPage, {});
    ranges_->read(files[1]->key, 0, kPage, {});
    EXPECT_EQ(stats().hits, 3u);
    score_->update_gates(now + kPause);
    EXPECT_EQ(score_->gate(kSlow).state(), policy::Gate::State::probing) << "three of 64 say little";
}

// As a filter of the program's own, under which the server runs as well, may have it (seccomp).
TEST_F(Asking, WhereTheKernelMayNotBeginReadsPiecesAreThoseOfTheRing) {
    begin(128);
    ShadowFile& f = file("a.ptr", 2048);
    if (!f.begins_reads) GTEST_SKIP() << "this file system makes who begins a read wait";
    f.read_ahead = 8 << 20;
    std::thread refused([&] {
        tests::refuse_call(SYS_readahead, EPERM);
        ask(f, 1024, 512);
        ASSERT_TRUE(all_comes());
        EXPECT_EQ(fallbacks_.count("no-readahead"), 1u);
        EXPECT_EQ(stats().dropped, 1u) << "the piece by which it was found out";
        EXPECT_FALSE(known(f, 1024));
        EXPECT_TRUE(in_memory(f, 1024 + 256, 256));
        ask(f, 1024, 512);
        ASSERT_TRUE(all_comes());
        EXPECT_TRUE(in_memory(f, 1024, 256));
    });
    refused.join();
}

TEST_F(Asking, WhatABoundRefusesIsNotTakenForNeedless) {
    RangeLimits limits;
    limits.bytes = kPage;
    limits.may_yield_ns = UINT64_MAX;
    begin(16, true, limits);
    ShadowFile& f = file("a.ptr", 1024);
    for (std::uint64_t page = 0; page < 900; page += 3) {
        ask(f, page);
        ASSERT_TRUE(all_comes());
    }
    EXPECT_EQ(stats().fetches, 1u);
    EXPECT_EQ(stats().dropped, 299u);
    score_->update_gates(now_ns());
    EXPECT_EQ(score_->gate(kSlow).state(), policy::Gate::State::on);
    EXPECT_EQ(score_->gate_notes(), std::vector<std::string>{});
}

// A walk must not read it, and wait for it, as if it were there (on file systems that cannot read without waiting).
TEST_F(Asking, AWalkIsToldOfWhatIsOnItsWay) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    ahead_->ask_walk(walk(f, 10));
    ASSERT_TRUE(all_comes());
    std::uint8_t byte = 0;
    const auto on_its_way = [&](std::uint64_t page) {
        return walks_->read_on_its_way({.offset = page * kPage, .data = &byte, .length = 1, .file = 0, .token = 0});
    };
    EXPECT_FALSE(on_its_way(3));
    ranges_->begin(f.key, 3 * kPage, kPage, kSlow, 0, now_ns());
    EXPECT_TRUE(on_its_way(3));
    EXPECT_FALSE(on_its_way(4));
    EXPECT_FALSE(on_its_way(10)) << "it has come";
}

// Else there would be no room for others for ever.
TEST_F(Asking, WhatWasOnlyBegunIsUnderWayNoLongerThanWhatIsHeardOf) {
    begin(128);
    ShadowFile& f = file("a.ptr", 1024);
    for (unsigned i = 0; i < 500; i++) ask(f, 2 * i);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().fetches, 500u);
    EXPECT_LE(ahead_->under_way(), Unheard::kInARow);
}

TEST_F(Asking, NoMoreThanSoManyRequestsWait) {
    constexpr unsigned kMost = 16384;
    begin(1);
    ShadowFile& f = file("a.ptr", 16);
    for (unsigned i = 0; i < kMost + 10; i++) ask(f, i % 2 == 0 ? 10 : 3);
    EXPECT_EQ(ahead_->waiting(), kMost);
    EXPECT_EQ(stats().dropped, 10u);
    EXPECT_EQ(f.pins, kMost);
    ahead_->drop_waiting();
    EXPECT_TRUE(ahead_->idle());
    EXPECT_EQ(f.pins, 0u);
}

void make_unreadable(const ShadowFile& file) {
    const int cannot_read = open(file.path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(dup3(cannot_read, file.fd, O_CLOEXEC), file.fd);
    close(cannot_read);
}

TEST_F(Asking, WhatCannotBeReadIsCountedAndNobodyIsSaidToHaveHadIt) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    make_unreadable(f);
    ask(f, 3);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(score_->failures().failed().ranges, 1u);
    EXPECT_EQ(score_->failures().failed().error, EBADF);
    EXPECT_EQ(ranges_->count(), 0u);
    EXPECT_FALSE(ranges_->read(f.key, 3 * kPage, kPage, {}));
    EXPECT_EQ(stats().hits + stats().wasted, 0u);
}

TEST_F(Asking, AChainOfWhichNothingCanBeReadIsSwitchedOff) {
    begin(16, true);
    ShadowFile& f = file("a.ptr", 1024);
    f.begins_reads = false;
    make_unreadable(f);
    for (std::uint64_t page = 0; page < 300; page += 3) {
        score_->ran(kSlow, true, true);
        ask(f, page);
        ASSERT_TRUE(all_comes());
        score_->update_gates(now_ns());
    }
    EXPECT_EQ(score_->gate(kSlow).reason(), policy::Gate::Reason::wasted);
    EXPECT_LT(stats().fetches, 100u);
    EXPECT_EQ(score_->failures().failed().ranges, stats().fetches);
}

TEST_F(Asking, ReadsOfWalksThatFailAreToldOf) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    make_unreadable(f);
    ahead_->ask_walk(walk(f, 3));
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(score_->failures().failed().ranges, 1u);
    EXPECT_EQ(score_->failures().failed().file, f.key);
    EXPECT_EQ(Failures::note(score_->failures().failed(), f.path),
              "1 range could not be read (" + f.path + "): Bad file descriptor");
}

TEST_F(Asking, WalksKeepToWhatMayLieUnread) {
    RangeLimits limits;
    limits.bytes = kPage;
    limits.may_yield_ns = UINT64_MAX;
    begin(16, false, limits);
    ShadowFile& f = file("a.ptr", 64);
    ahead_->ask_walk(walk(f, 3, "twice"));
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().walks, 1u);
    EXPECT_EQ(stats().fetches, 1u);
    EXPECT_EQ(stats().dropped, 1u) << "what it has read besides";
    ahead_->ask_walk(walk(f, 9));
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().walks, 1u);
    EXPECT_EQ(stats().dropped, 2u);
    EXPECT_EQ(pages_in_memory(f.path, 9, 1), 0u);
}

TEST_F(Asking, AWalkIsNotDoneAgainForAMoment) {
    begin(16);
    ShadowFile &f = file("f.ptr", 16), &g = file("g.ptr", 16);
    constexpr std::uint64_t kThen = 1'000'000'000'000, kMoment = 250'000'000;
    const auto started = [&](const WalkRequest& request, std::uint64_t at_ns) {
        return walks_->start(request, at_ns) == Walks::Started::yes;
    };
    EXPECT_TRUE(started(walk(f, 1), kThen));
    EXPECT_FALSE(started(walk(f, 1), kThen + kMoment - 1));
    EXPECT_TRUE(started(walk(f, 2), kThen)) << "to another page";
    EXPECT_TRUE(started(walk(g, 1), kThen)) << "of another file";
    EXPECT_TRUE(started(walk(f, 1, "behind"), kThen)) << "by another chain";
    EXPECT_TRUE(started(walk(f, 1), kThen + kMoment));
    ASSERT_TRUE(all_comes());
}

TEST_F(Asking, AWalkOverWhatWasFetchedIsADuplicateAndOverWhatWasInMemoryNeedless) {
    begin(16);
    ShadowFile& f = file("a.ptr", 64);
    ask(f, 7);
    ahead_->ask_walk(walk(f, 7));
    ask(f, 20);
    ASSERT_TRUE(all_comes());
    ASSERT_TRUE(in_memory(f, 7, 1) && in_memory(f, 20, 1));
    EXPECT_EQ(stats().fetches, 2u) << "the walk came to a page that was under way";
    const std::uint64_t before = stats().duplicate;
    ahead_->ask_walk(walk(f, 20));
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().duplicate, before + 1);
    EXPECT_EQ(stats().cached, 0u);
    // Of another thread: a walk goes by what its own thread has read from the device.
    std::optional<InMemory> there;
    std::thread([&] { there.emplace(f.path, 40, 1); }).join();
    ahead_->ask_walk(walk(f, 40));
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().cached, 1u);
    EXPECT_EQ(stats().duplicate, before + 1);
    EXPECT_EQ(stats().walks, 3u);
}

TEST_F(Asking, WalksGoOverMoreFilesThanAnEngineHasOpen) {
    constexpr unsigned kFiles = 70;
    begin(16);
    for (unsigned i = 0; i < kFiles; i++) {
        ahead_->ask_walk(walk(file("f" + std::to_string(i) + ".ptr", 2), 1));
        ASSERT_TRUE(all_comes());
    }
    EXPECT_EQ(stats().walks, kFiles);
    EXPECT_EQ(stats().dropped, 0u);
}

// Though the engine has it open since it was shorter.
TEST_F(Asking, AWalkGoesByHowLongTheFileIsNow) {
    begin(16);
    ShadowFile& f = file("a.ptr", 16);
    ahead_->ask_walk(walk(f, 2, "last"));
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(known(f, 14));
    drop_pages(folder_.write("a.ptr", std::string(64 * kPage, 'x')));
    files_.look_again();
    ahead_->ask_walk(walk(f, 3, "last"));
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(known(f, 61));
    EXPECT_EQ(stats().fetches, 2u);
}

TEST_F(Asking, AFileThatIsClosedIsClosedForWalksAsWell) {
    begin(16);
    ShadowFile& f = file("a.ptr", 4);
    const std::string path = f.path;
    ahead_->ask_walk(walk(f, 1));
    ASSERT_TRUE(all_comes());
    for (int i = 0; i < 3; i++) files_.let_go();
    EXPECT_EQ(files_.open_count(), 0u);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        EXPECT_NE(std::filesystem::read_symlink(entry, gone).string(), path);
    }
}

}  // namespace
}  // namespace chainio::shadow::test
