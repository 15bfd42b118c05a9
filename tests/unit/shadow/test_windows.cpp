// How the beginnings of files come: in the kernel's own windows, exactly as far as was asked for, in large folios.
#include "runtime/shadow/windows.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "runtime/shadow/devices.h"
#include "runtime/shadow/disk.h"
#include "runtime/shadow/ranges.h"
#include "tests/support/no_walks.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::NoWalks;

using Pages = std::vector<std::uint64_t>;

// Where windows end that are as large as they may be.
Pages ends(std::uint64_t most, std::uint64_t first, unsigned count) {
    Pages all;
    for (Windows windows(most, first); all.size() < count; windows.grow(windows.next_end())) {
        EXPECT_LT(windows.mark(), windows.end());
        EXPECT_GT(windows.next_end(), windows.end());
        all.push_back(windows.end());
    }
    return all;
}

TEST(Windows, GrowAsTheKernelsDo) {
    EXPECT_EQ(ends(2048, 4, 8), (Pages{4, 20, 84, 340, 852, 1876, 3924, 5972}));
    EXPECT_EQ(ends(32, 4, 6), (Pages{4, 12, 28, 60, 92, 124}));
    EXPECT_EQ(ends(16, 2, 4), (Pages{2, 6, 14, 30}));
}

TEST(Windows, GoByWhereTheLatestHasEnded) {
    Windows windows(2048, 4);
    windows.grow(20);
    EXPECT_EQ(windows.mark(), 4u);
    windows.grow(80);
    EXPECT_EQ(windows.mark(), 20u);
    EXPECT_EQ(windows.next_end(), 80u + 4 * 60);
}

// A file none of whose pages is in memory, and a descriptor as the server's are.
class Begin : public testing::Test {
  protected:
    void make(unsigned pages) {
        path_ = folder_.write("f", std::string(std::size_t{pages} * kPageBytes, 'x'));
        drop_pages(path_);
        fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
        ASSERT_GE(fd_, 0);
        ASSERT_EQ(posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM), 0);
    }
    void SetUp() override {
        make(1);
        struct stat info{};
        ASSERT_EQ(fstat(fd_, &info), 0);
        const Devices::Device device = Devices{}.of(info.st_dev, fd_, kPageBytes);
        read_ahead_ = device.read_ahead;
        if (!device.begins_reads) GTEST_SKIP() << "this file system makes who begins a read wait";
        if (read_ahead_ == 0) GTEST_SKIP() << "the kernel reads nothing ahead on this disk";
        close(std::exchange(fd_, -1));
    }
    ~Begin() override {
        if (fd_ >= 0) close(fd_);
    }
    bool comes(unsigned first, unsigned count) { return come(path_, {{first, count}}); }
    // Of pages that are in memory those that lie there with others in one piece; none where the kernel does not say.
    unsigned in_large_folios(unsigned pages) {
        constexpr std::uint64_t kCompound = std::uint64_t{3} << 15, kPfn = (std::uint64_t{1} << 55) - 1;
        const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        const int flags = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
        void* at = mmap(nullptr, pages * kPageBytes, PROT_READ, MAP_SHARED, fd_, 0);
        unsigned found = 0;
        for (unsigned i = 0; at != MAP_FAILED && i < pages; i++) {
            const volatile char* byte = static_cast<char*>(at) + i * kPageBytes;
            (void)*byte;
            std::uint64_t entry = 0, flag = 0;
            const auto place = reinterpret_cast<std::uintptr_t>(byte) / kPageBytes * sizeof entry;
            if (pread(map, &entry, sizeof entry, static_cast<off_t>(place)) != sizeof entry) break;
            if (pread(flags, &flag, sizeof flag, static_cast<off_t>((entry & kPfn) * sizeof flag)) != sizeof flag)
                break;
            found += (flag & kCompound) != 0;
        }
        if (at != MAP_FAILED) munmap(at, pages * kPageBytes);
        close(map);
        close(flags);
        return found;
    }

    // By this thread, so far.
    static long blocks_read() {
        rusage usage{};
        EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
        return usage.ru_inblock;
    }

    NoWalks watcher_;
    metrics::Fallbacks fallbacks_;
    Disk disk_{4, 0, watcher_, fallbacks_};
    const Folder folder_;
    std::string path_;
    int fd_ = -1;
    std::uint64_t read_ahead_ = 0;
};

TEST_F(Begin, BringsSoManyPagesAndNoOther) {
    make(4000);
    ASSERT_TRUE(disk_.begin_file(fd_, 1001 * kPageBytes - 5, read_ahead_, false));
    EXPECT_TRUE(comes(0, 1001));
    EXPECT_EQ(pages_in_memory(path_, 1001, 2999), 0u);
}

TEST_F(Begin, BringsAWholeFile) {
    make(301);
    ASSERT_TRUE(disk_.begin_file(fd_, 301 * kPageBytes, read_ahead_, true));
    EXPECT_TRUE(comes(0, 301));
}

TEST_F(Begin, BringsMoreThanTheKernelReadsAhead) {
    const auto asked = static_cast<unsigned>(read_ahead_ / kPageBytes) + 300;
    make(asked + 1000);
    ASSERT_TRUE(disk_.begin_file(fd_, asked * kPageBytes, read_ahead_, false));
    EXPECT_TRUE(comes(0, asked));
    EXPECT_EQ(pages_in_memory(path_, asked, 1000), 0u);
}

// Somebody else has read from it; what would begin a window is not marked, or not there.
TEST_F(Begin, BringsTheRestOfWhatIsThereInPart) {
    for (const unsigned there : {0u, 1u, 4u, 20u, 50u, 84u, 299u}) {
        make(1000);
        char byte = 0;
        ASSERT_EQ(pread(fd_, &byte, 1, there * kPageBytes), 1);
        ASSERT_TRUE(disk_.begin_file(fd_, 300 * kPageBytes, read_ahead_, false));
        EXPECT_TRUE(comes(0, 300)) << there;
        EXPECT_EQ(pages_in_memory(path_, 300, 700), 0u) << there;
        close(std::exchange(fd_, -1));
    }
}

// As large as those of who reads through the file, where the file system has any.
TEST_F(Begin, BringsLargeFolios) {
    constexpr unsigned kPages = 1000;
    if (read_ahead_ < Windows::kLeast * kPageBytes) GTEST_SKIP() << "the kernel's windows hardly grow on this disk";
    make(kPages);
    posix_fadvise(fd_, 0, 0, POSIX_FADV_NORMAL);
    std::string all(kPages * kPageBytes, 0);
    for (std::size_t at = 0; at < all.size(); at += kPageBytes)
        ASSERT_EQ(pread(fd_, all.data(), kPageBytes, static_cast<off_t>(at)), static_cast<ssize_t>(kPageBytes));
    const unsigned by_reading = in_large_folios(kPages);
    if (by_reading < kPages / 2) GTEST_SKIP() << "the file system has none, or the kernel does not say so";
    posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
    drop_pages(path_);
    ASSERT_TRUE(disk_.begin_file(fd_, kPages * kPageBytes, read_ahead_, true));
    ASSERT_TRUE(comes(0, kPages));
    EXPECT_GE(in_large_folios(kPages), by_reading * 9 / 10);
}

// Where large pieces of memory are dear, as of a virtual machine whose host has to find them first.
TEST_F(Begin, BringsSinglePagesWhereTheirFirstTouchIsCheaper) {
    constexpr unsigned kPages = 1000;
    if (read_ahead_ < Windows::kLeast * kPageBytes) GTEST_SKIP() << "the kernel's windows hardly grow on this disk";
    make(kPages);
    disk_.first_touch().took(FirstTouch::How::in_windows, 3'000);
    ASSERT_TRUE(disk_.begin_file(fd_, kPages * kPageBytes, read_ahead_, true));
    ASSERT_TRUE(comes(0, kPages));
    EXPECT_EQ(in_large_folios(kPages), 0u);
    EXPECT_EQ(disk_.filled().how, FirstTouch::How::singly);
    EXPECT_EQ(fallbacks_.count("no-large-folios"), 1u);
}

TEST_F(Begin, LooksAtWhatFilesTakeToBeTouchedFirst) {
    constexpr unsigned kPages = 1000;
    if (read_ahead_ < Windows::kLeast * kPageBytes) GTEST_SKIP() << "the kernel's windows hardly grow on this disk";
    make(kPages);
    ASSERT_TRUE(disk_.begin_file(fd_, kPages * kPageBytes, read_ahead_, true));
    const Disk::Filled filled = disk_.filled();
    EXPECT_EQ(filled.how, FirstTouch::How::in_windows);
    ASSERT_GE(filled.count, 64u) << "most of it comes in windows";
    EXPECT_LE(filled.first + filled.count, kPages);
    ASSERT_TRUE(comes(0, kPages));
    drop_pages(path_);
    disk_.look_at(fd_, filled);
    EXPECT_FALSE(disk_.first_touch().knows(filled.how)) << "of what is not in memory there is nothing to find out";
    const InMemory all(path_, 0, kPages);
    disk_.look_at(fd_, filled);
    EXPECT_TRUE(disk_.first_touch().knows(filled.how));
}

TEST_F(Begin, LooksAtNoSmallFiles) {
    make(255);
    disk_.first_touch().took(FirstTouch::How::in_windows, 3'000);
    ASSERT_TRUE(disk_.begin_file(fd_, 255 * kPageBytes, read_ahead_, true));
    EXPECT_EQ(disk_.filled().count, 0u);
    EXPECT_EQ(fallbacks_.count("no-large-folios"), 0u);
    EXPECT_TRUE(comes(0, 255));
}

// Since Linux 6.15 the kernel says only to who may write to a file, or owns it, what is in memory of it.
TEST_F(Begin, BringsSinglePagesOfAFileOfWhichTheKernelDoesNotSayWhatIsThere) {
    constexpr unsigned kPages = 301, kFirst = kPiece / kPageBytes;
    constexpr long kCachestat = 451;
    constexpr uid_t kNobody = 65534;
    if (geteuid() != 0) GTEST_SKIP() << "only root makes files that are somebody else's";
    if (read_ahead_ < Windows::kLeast * kPageBytes) GTEST_SKIP() << "the kernel's windows hardly grow on this disk";
    make(kPages);
    bool refused = false, has_first = false, has_all = true, begun = false;
    long brought = 0;  // blocks: a disk that is done before the kernel looks has brought what was only looked for
    const InMemory first(path_, 0, kFirst);
    std::thread other([&] {  // a user by the system call is the thread's alone
        if (syscall(SYS_setresuid, -1, kNobody, -1) != 0) return;
        const std::uint64_t range[2] = {0, kPageBytes};
        std::uint64_t found[5];
        refused = syscall(kCachestat, fd_, range, found, 0) != 0 && errno == EPERM;
        has_first = disk_.in_memory(fd_, 0, kFirst * kPageBytes, true);
        const long before = blocks_read();
        has_all = disk_.in_memory(fd_, 0, kPages * kPageBytes, true);
        brought = blocks_read() - before;
        begun = disk_.begin_file(fd_, kPages * kPageBytes, read_ahead_, true);
    });
    other.join();
    EXPECT_TRUE(has_first);
    EXPECT_TRUE(!has_all || brought > 0);
    EXPECT_TRUE(begun);
    EXPECT_TRUE(comes(0, kPages));
    if (!refused) GTEST_SKIP() << "this kernel says of everybody's files what is in memory";
    EXPECT_EQ(fallbacks_.count("no-windows"), 1u);
    if (in_large_folios(kPages) > 0) ADD_FAILURE() << "the beginning came in windows all the same";
}

using How = FirstTouch::How;

constexpr std::uint64_t kCheap = 100, kDear = 2'800;

// Of so many files, which begin singly.
unsigned singly(FirstTouch& touch, unsigned files) {
    unsigned count = 0;
    for (unsigned i = 0; i < files; i++) count += touch.next() == How::singly;
    return count;
}

TEST(FirstTouch, FilesBeginInWindowsWhileNothingIsKnown) {
    FirstTouch touch;
    EXPECT_EQ(singly(touch, 100), 0u);
    touch.took(How::in_windows, kCheap);
    EXPECT_EQ(singly(touch, 100), 0u);
}

TEST(FirstTouch, TheyBeginSinglyWhereThatIsCheaper) {
    FirstTouch touch;
    touch.took(How::in_windows, kDear);
    EXPECT_EQ(singly(touch, 2 * FirstTouch::kAgain), 2 * (FirstTouch::kAgain - 1)) << "it is not known what that costs";
    touch.took(How::singly, kCheap);
    EXPECT_EQ(singly(touch, 10 * FirstTouch::kAgain), 10 * (FirstTouch::kAgain - 1)) << "windows are tried again";
}

TEST(FirstTouch, TheyDoNotWhereAllMemoryIsDear) {
    FirstTouch touch;
    touch.took(How::in_windows, kDear);
    touch.took(How::singly, kDear);
    EXPECT_EQ(singly(touch, 10 * FirstTouch::kAgain), 10u);
}

TEST(FirstTouch, MemoryMayBecomeCheapAgain) {
    FirstTouch touch;
    touch.took(How::in_windows, kDear);
    touch.took(How::singly, kCheap);
    for (int i = 0; i < 4; i++) touch.took(How::in_windows, kCheap);
    EXPECT_EQ(singly(touch, 100), 0u);
}

// A single page costs more to be allocated and added.
TEST(FirstTouch, TheyDoNotWhereSinglePagesAreHardlyCheaper) {
    FirstTouch touch;
    touch.took(How::in_windows, FirstTouch::kMattersNs + FirstTouch::kSingleNs / 2);
    touch.took(How::singly, FirstTouch::kMattersNs);
    EXPECT_EQ(singly(touch, FirstTouch::kAgain - 1), 0u);
}

TEST(FirstTouch, OneLookAloneChangesNothing) {
    FirstTouch touch;
    touch.took(How::in_windows, 4 * FirstTouch::kMattersNs);
    touch.took(How::singly, 0);
    touch.took(How::in_windows, 0);
    EXPECT_EQ(singly(touch, FirstTouch::kAgain - 1), FirstTouch::kAgain - 1);
}

TEST(FirstTouch, TheFirstAreLookedAtAndThenFew) {
    FirstTouch touch;
    EXPECT_FALSE(touch.knows(How::in_windows));
    for (unsigned i = 0; i < FirstTouch::kOften; i++) {
        EXPECT_TRUE(touch.wants(How::in_windows));
        touch.took(How::in_windows, kCheap);
    }
    EXPECT_TRUE(touch.knows(How::in_windows));
    unsigned wanted = 0;
    for (unsigned i = 0; i < 10 * FirstTouch::kSeldom; i++) wanted += touch.wants(How::in_windows);
    EXPECT_EQ(wanted, 10u);
}

// Else it would take long until it is known that memory has become cheap.
TEST(FirstTouch, WhatIsTriedAgainIsLookedAtEachTime) {
    FirstTouch touch;
    for (unsigned i = 0; i < FirstTouch::kOften; i++) {
        touch.took(How::in_windows, kDear);
        touch.took(How::singly, kCheap);
    }
    for (unsigned i = 0; i < 10; i++) EXPECT_TRUE(touch.wants(How::in_windows));
    EXPECT_FALSE(touch.wants(How::singly));
}

}  // namespace
}  // namespace chainio::shadow::test
