// What is fetched of files that are read past the page cache: nothing is served that the file does not hold.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tests/support/refused_call.h"
#include "tests/unit/shadow/asking.h"
#include "tests/unit/shadow/kernel.h"

namespace chainio::shadow::test {
namespace {

class DirectTest : public Asking {
  protected:
    // Until it has not changed for a while.
    bool becomes_ready(ShadowFile& file) {
        return happens([&] { return direct_.ready(file); });
    }
    bool holds(const ShadowFile& file, std::uint64_t page) const { return direct_.holds(file, page * kPage, kPage); }
};

TEST_F(DirectTest, AFileThatHasJustChangedIsNotServedYet) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 8);
    // The machine may be so busy that a moment has passed.
    EXPECT_TRUE(happens([&] {
        const bool wrote = truncate(f.path.c_str(), 8 * kPage) == 0;
        return wrote && !direct_.ready(f);
    }));
    EXPECT_TRUE(becomes_ready(f));
    ask(f, 3);
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(holds(f, 3));
    EXPECT_FALSE(holds(f, 4));
    const auto notes = direct_.notes();
    EXPECT_TRUE(std::ranges::any_of(notes, [](const auto& note) { return note.ends_with(": it has just changed"); }));
}

// There are few places for it.
TEST_F(DirectTest, AFileThatIsClosedGivesItsPlaceBack) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 8);
    for (std::uint32_t i = 0; i < 2 * shim::kFileWays; i++) {
        ASSERT_TRUE(becomes_ready(f)) << i;
        direct_.closes(f);
    }
}

TEST_F(DirectTest, ReadsMayWait) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 8);
    ASSERT_TRUE(becomes_ready(f));
    const int flags = fcntl(f.direct_fd, F_GETFL);
    EXPECT_EQ(flags & O_NONBLOCK, 0);
    EXPECT_NE(flags & O_DIRECT, 0);
    EXPECT_NE(flags & O_NOATIME, 0) << "its access time is to show only the program's reads";
}

// Where somebody has set its times, or the clock of its machine is ahead. Some dates have no room in 64 bits of ns.
TEST_F(DirectTest, AFileOfTheFutureIsServedOnceItHasBeenSeenUnchanged) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 8);
    for (const time_t date : {time_t{1'893'456'789}, time_t{10'000'000'000}}) {
        const timespec times[] = {{date, 1}, {date, 1}};
        ASSERT_EQ(utimensat(AT_FDCWD, f.path.c_str(), times, 0), 0);
        EXPECT_FALSE(direct_.ready(f));
        EXPECT_TRUE(becomes_ready(f)) << date;
    }
}

TEST_F(DirectTest, WhatChangesWhileItIsReadIsNotServed) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 256);
    ASSERT_TRUE(becomes_ready(f));
    for (std::uint64_t page = 0; page < 256; page++) {
        ASSERT_TRUE(becomes_ready(f));
        ask(f, page);
        step();
        if (ahead_->idle()) continue;  // it has come already
        ASSERT_EQ(truncate(f.path.c_str(), 256 * kPage), 0);
        ASSERT_TRUE(all_comes());
        EXPECT_FALSE(holds(f, page));
        EXPECT_FALSE(known(f, page));
        EXPECT_EQ(Failures::note(score_->failures().changed(), "a.fix"),
                  "1 range was not kept, since its file changed meanwhile (a.fix)");
        return;
    }
    GTEST_SKIP() << "the disk is so quick that nothing can happen meanwhile";
}

// Though the file has been served again since it changed.
TEST_F(DirectTest, WhatWasBegunBeforeAChangeIsNotServedBehindIt) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 8);
    ASSERT_TRUE(becomes_ready(f));
    const std::uint64_t before = f.served_id;
    {
        const RingReadsAre held(RingReads::not_yet);
        ask(f, 3);
        step();
        ASSERT_EQ(ahead_->in_flight(), 1u);
        ASSERT_EQ(truncate(f.path.c_str(), 8 * kPage), 0);
        ASSERT_TRUE(becomes_ready(f));
        ASSERT_NE(f.served_id, before);
    }
    ASSERT_TRUE(all_comes());
    EXPECT_FALSE(holds(f, 3));
    EXPECT_FALSE(known(f, 3));
    EXPECT_EQ(score_->failures().changed().ranges, 1u);
    ask(f, 3);
    ASSERT_TRUE(all_comes());
    EXPECT_TRUE(holds(f, 3));
}

TEST_F(DirectTest, WhatCameShortIsNotServed) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 8);
    ASSERT_TRUE(becomes_ready(f));
    f.size = f.served_size = 16 * kPage;  // as if the rest had come to nothing
    ask(f, 6, 4);
    ask(f, 2, 2);
    ASSERT_TRUE(all_comes());
    for (const std::uint64_t page : {6, 7, 8, 9}) EXPECT_FALSE(holds(f, page)) << page;
    EXPECT_TRUE(holds(f, 2) && holds(f, 3));
}

TEST_F(DirectTest, IsNotWalked) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 8);
    ahead_->ask_walk(walk(f, 3));
    EXPECT_EQ(stats().dropped, 1u);
    EXPECT_TRUE(ahead_->idle());
    WalkRequest marks = walk(f, 3);
    marks.marks = 0;
    ahead_->ask_mark(marks);
    EXPECT_EQ(stats().dropped, 2u);
    EXPECT_TRUE(ahead_->idle());
    EXPECT_EQ(direct_.notes(), std::vector<std::string>{"a file that is read with O_DIRECT was left alone 2 times: a "
                                                        "chain would walk it, and what walks read is not served"});
}

TEST_F(DirectTest, WithoutIoUringItIsLeftAloneForWantOfThat) {
    std::thread refused([&] {
        tests::refuse_call(SYS_io_uring_setup, EPERM);
        begin(16, true);
        ShadowFile& f = direct_file("a.fix", 1024);
        for (std::uint64_t page = 0; page < 900; page += 3) {
            ask(f, page);
            ASSERT_TRUE(all_comes());
        }
        score_->update_gates(now_ns());
    });
    refused.join();
    EXPECT_EQ(stats().dropped, 300u);
    EXPECT_EQ(score_->gate(kSlow).state(), policy::Gate::State::on);
    EXPECT_EQ(direct_.notes(), std::vector<std::string>{
                                   "a file that is read with O_DIRECT was left alone 300 times: io_uring may not be "
                                   "used here, and nothing else reads into memory that programs are served from"});
}

TEST_F(DirectTest, WhatHadToMakeRoomUnreadIsFetchedAgain) {
    begin(16);
    ShadowFile& f = direct_file("a.fix", 1024);
    ASSERT_TRUE(becomes_ready(f));
    ask(f, 1);
    ASSERT_TRUE(all_comes());
    ask(f, 1);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().duplicate, 1u);
    for (std::uint64_t page = 16; holds(f, 1) && page < 1024; page += 32) {
        ask(f, page, 32);
        ASSERT_TRUE(all_comes());
    }
    ASSERT_FALSE(holds(f, 1));
    ASSERT_TRUE(known(f, 1));
    const std::uint64_t before = stats().fetches;
    ask(f, 1);
    ASSERT_TRUE(all_comes());
    EXPECT_EQ(stats().fetches, before + 1);
    EXPECT_TRUE(holds(f, 1));
}

}  // namespace
}  // namespace chainio::shadow::test
