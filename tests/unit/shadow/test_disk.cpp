// What the ring that fills the page cache is waited for.
#include "runtime/shadow/disk.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/ranges.h"
#include "runtime/shadow/resident.h"
#include "tests/support/no_walks.h"
#include "tests/support/refused_call.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::NoWalks;

TEST(Disk, TheEndOfAReadEndsTheSleepOnlyOfWhoWaitsForReads) {
    constexpr std::uint64_t kShort = 20'000'000, kLong = 30'000'000'000;
    const Folder folder;
    const std::string path = folder.write("f", std::string(kPageBytes, 'x'));
    drop_pages(path);
    Seen page(path, {0, 1});
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    NoWalks watcher;
    metrics::Fallbacks fallbacks;
    Disk disk(4, 0, watcher, fallbacks);
    ASSERT_TRUE(disk.fetch(fd, 0, kPageBytes, 7));
    ASSERT_GE(disk.enter(0, {}), 0);
    std::atomic<std::uint32_t> word{1};
    if (disk.fetched().empty()) {  // else there is no ring, or the disk was done at once
        const std::uint64_t before = now_ns();
        disk.wait(word, kShort, false);
        EXPECT_GE(now_ns() - before, kShort);
        EXPECT_TRUE(disk.fetched().empty());
        const std::uint64_t until = now_ns() + kLong;
        while (disk.fetched().empty() && now_ns() < until) {
            disk.wait(word, kLong, true);
            page.look();
        }
    }
    ASSERT_EQ(disk.fetched().size(), 1u);
    EXPECT_EQ(disk.fetched()[0].number, 7u);
    EXPECT_TRUE(page.all());
    close(fd);
}

// A sleep that waits for reads goes by the ring, which goes on waiting for the word when its time is over; and who
// wakes one wakes that.
TEST(Disk, AWakeUpReachesWhoSleepsHoweverTheLastSleepWas) {
    constexpr std::uint64_t kShort = 1'000'000, kLong = 20'000'000'000;
    NoWalks watcher;
    metrics::Fallbacks fallbacks;
    Disk disk(4, 0, watcher, fallbacks);
    std::atomic<std::uint32_t> word{1};
    disk.wait(word, kShort, true);
    std::thread waker([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        word = 0;
        syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    });
    const std::uint64_t before = now_ns();
    disk.wait(word, kLong, false);
    EXPECT_LT(now_ns() - before, kLong / 2);
    waker.join();
}

// What the kernel has not taken when it refuses the call has ended; whether it is a call that waits or one that does
// not.
TEST(Disk, ARingThatHasFailedIsWaitedForNoMore) {
    constexpr std::uint64_t kShort = 20'000'000, kLong = 20'000'000'000;
    const Folder folder;
    const std::string path = folder.write("f", std::string(2 * kPageBytes, 'x'));
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    for (const bool waits : {false, true}) {
        std::thread refused([&] {
            NoWalks watcher;
            metrics::Fallbacks fallbacks;
            Disk disk(4, 0, watcher, fallbacks);
            ASSERT_TRUE(disk.reads_to_memory()) << "there is no io_uring here";
            std::atomic<std::uint32_t> word{1};
            ASSERT_TRUE(disk.fetch(fd, 0, kPageBytes, 7));
            ASSERT_TRUE(happens([&] { return disk.enter(0, {}) == 0 && !disk.fetched().empty(); }));
            disk.clear_fetched();
            EXPECT_EQ(disk.failure(), "");
            ASSERT_TRUE(disk.fetch(fd, kPageBytes, kPageBytes, 8));
            tests::refuse_call(SYS_io_uring_enter, EPERM);
            if (waits) {
                disk.wait(word, kLong, true);
            } else {
                EXPECT_EQ(disk.enter(0, {}), 0);
            }
            EXPECT_EQ(disk.failure(), "io_uring_enter: Operation not permitted");
            ASSERT_EQ(disk.fetched().size(), 1u);
            EXPECT_EQ(disk.fetched()[0].number, 8u);
            EXPECT_EQ(disk.fetched()[0].result, -EPERM);
            EXPECT_EQ(disk.under_way(), 0u);
            EXPECT_FALSE(disk.fetch(fd, 0, kPageBytes, 9)) << "nothing begins any more";
            EXPECT_LT(disk.enter(1, {}), 0) << "nor is anything waited for";
            for (const bool for_reads : {false, true}) {
                const std::uint64_t before = now_ns();
                disk.wait(word, kShort, for_reads);
                EXPECT_GE(now_ns() - before, kShort) << "it sleeps, whatever is there to be taken";
            }
        });
        refused.join();
    }
    close(fd);
}

// More pages than are looked at in one go, and some of them.
TEST(Disk, WhatIsInMemoryIsSeenThroughAMapping) {
    constexpr std::uint64_t kPages = 2 * kPiece / kPageBytes + 3;
    const Folder folder;
    const std::string path = folder.write("f", std::string(kPages * kPageBytes, 'x'));
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(tells_what_is_resident(fd), true) << "the file is ours";
    drop_pages(path);
    EXPECT_EQ(resident_pages(fd, 0, kPages * kPageBytes), 0u);
    const InMemory there(path, kPages - 2, 2);
    EXPECT_EQ(resident_pages(fd, 0, kPages * kPageBytes), 2u);
    EXPECT_EQ(resident_pages(fd, (kPages - 2) * kPageBytes + 100, kPageBytes), 2u) << "of two pages, a part each";
    close(fd);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    EXPECT_EQ(resident_pages(ends[0], 0, kPageBytes), std::nullopt) << "cannot be mapped";
    for (const int end : ends) close(end);
}

}  // namespace
}  // namespace chainio::shadow::test
