#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "runtime/shadow/ahead.h"
#include "tests/unit/shadow/fixture.h"

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

constexpr std::uint32_t kPage = 4096, kNamed = 60;

// A file whose first page names the sixty pages behind it, of which none is in memory.
class Held : public testing::Test {
  protected:
    Held() : running_(server_of(kSpec)), poster_(running_.region(), 0) {
        std::string bytes(std::size_t{kPage} * (kNamed + 1), 0);
        for (std::uint32_t i = 0; i <= kNamed; i++) {
            const std::uint32_t word = i == 0 ? kNamed : i;  // their count, then each
            std::memcpy(bytes.data() + i * sizeof word, &word, sizeof word);
        }
        path_ = folder_.write("a.ptr", bytes);
        other_ = folder_.write("a.other", bytes);
        for (const auto& path : {path_, other_}) drop_pages(path);
        const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        char first[kPage];
        EXPECT_EQ(pread(fd, first, sizeof first, 0), ssize_t{kPage});
        close(fd);
        EXPECT_TRUE(poster_.opened(0, path_));
        EXPECT_TRUE(poster_.read(0, path_, 0, kPage, 500));
        EXPECT_TRUE(fetched(8));
    }
    unsigned in_memory() const { return pages_in_memory(path_, 1, kNamed); }
    bool fetched(unsigned pages) {
        return happens([&] { return in_memory() >= pages; }) && in_memory() == pages;
    }

    static constexpr char kSpec[] = R"(
app held { files data = "*.ptr"  files others = "*.other" }
record Page { count: u32le  page: u32le[count max 64] }
chain follow on read(data) as r { for p in r.record(Page).page max 64 { prefetch r.file at p * 4096 for 4096 } }
chain other on open(others) as o { prefetch o.file at 8192 for 4096 }
)";
    Folder folder_;
    std::string path_, other_;
    Running running_;
    tests::Poster poster_;
};

TEST_F(Held, WhatIsAskedForIsFetchedOnceTheProgramWaitsOrUsesSomethingOfIt) {
    ASSERT_TRUE(poster_.opened(1, other_));
    EXPECT_TRUE(happens([&] { return pages_in_memory(other_, 2, 1) == 1; })) << "nobody else has to wait for that";
    EXPECT_EQ(in_memory(), 8u);
    ASSERT_TRUE(poster_.read(0, path_, 0, 16, 100'000));
    EXPECT_TRUE(fetched(8 + 16)) << in_memory();
    ASSERT_TRUE(poster_.read(0, path_, kPage, kPage, 500));
    EXPECT_TRUE(fetched(kNamed)) << in_memory();
    EXPECT_EQ(running_.chain().hits, 1u);
    EXPECT_EQ(running_.chain().dropped, 0u);
}

// An open file keeps its volume from being unmounted.
TEST_F(Held, WhatNobodyReadsIsNotHeldForEver) {
    EXPECT_TRUE(happens([&] { return running_.chain().dropped == kNamed - 8; })) << running_.chain().dropped;
    EXPECT_EQ(in_memory(), 8u);
}

TEST_F(Held, WhatAProgramAsksForThatNeverWaitsIsDropped) {
    for (int i = 0; i < 64; i++) ASSERT_TRUE(poster_.read(0, path_, 0, 16, 500));
    EXPECT_TRUE(happens([&] { return running_.chain().dropped == kNamed - 8; })) << running_.chain().dropped;
    EXPECT_EQ(in_memory(), 8u);
    EXPECT_GE(running_.chain().gate_changes, 1u);
}

}  // namespace
}  // namespace chainio::shadow::test
