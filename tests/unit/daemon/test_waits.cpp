// What the daemon waits for: of each descriptor what was wanted of it last, by epoll alone and through the io_uring.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "tools/chainio-runtime/waits.h"

namespace chainio::runtime_tool {
namespace {

class EveryWait : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        if (GetParam()) {
            metrics::Fallbacks fallbacks;
            auto ring = ring::Shared::create({.entries = 8, .cq_entries = 32, .seats = 2}, fallbacks);
            if (!ring) GTEST_SKIP() << ring.error();
            ring_ = std::move(*ring);
        }
        auto waits = Waits::create(ring_.get());
        ASSERT_TRUE(waits) << waits.error();
        waits_ = std::move(*waits);
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
    }
    void TearDown() override {
        for (const int fd : ends_) close(fd);
    }
    // What comes within that time.
    std::vector<std::pair<std::uint32_t, std::uint64_t>> waited(int timeout_ms) {
        const auto came = waits_->wait(timeout_ms);
        EXPECT_TRUE(came) << came.error();
        std::vector<std::pair<std::uint32_t, std::uint64_t>> all;
        if (came)
            // They are packed: nothing may refer to what is in them.
            for (const epoll_event& each : *came)
                all.emplace_back(std::uint32_t{each.events}, std::uint64_t{each.data.u64});
        return all;
    }
    using Came = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

    std::unique_ptr<ring::Shared> ring_;
    std::unique_ptr<Waits> waits_;
    int ends_[2] = {-1, -1};
};

constexpr int kLong = 60'000;

TEST_P(EveryWait, IsForWhatWasWantedLast) {
    waits_->want(ends_[0], EPOLLIN, 7);
    EXPECT_EQ(waited(0), Came{});
    // As of a client whose answers had no room any more.
    waits_->want(ends_[0], EPOLLIN | EPOLLOUT, 7);
    EXPECT_EQ(waited(kLong), (Came{{EPOLLOUT, 7}}));
    waits_->want(ends_[0], EPOLLIN, 8);
    EXPECT_EQ(waited(0), Came{});
    ASSERT_EQ(write(ends_[1], "x", 1), 1);
    waits_->want(ends_[0], EPOLLIN, 8);
    EXPECT_EQ(waited(kLong), (Came{{EPOLLIN, 8}}));
    EXPECT_EQ(waited(0), Came{}) << "nothing is wanted of it";
    waits_->want(ends_[0], EPOLLIN, 9);
    EXPECT_EQ(waited(kLong), (Came{{EPOLLIN, 9}}));
}

TEST_P(EveryWait, IsForTheDescriptorThatHasTheNumberNow) {
    waits_->want(ends_[0], EPOLLIN, 7);
    EXPECT_EQ(waited(0), Came{});
    int other[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, other), 0);
    ASSERT_EQ(dup3(other[0], ends_[0], O_CLOEXEC), ends_[0]);
    close(other[0]);
    ASSERT_EQ(write(other[1], "x", 1), 1);
    waits_->want(ends_[0], EPOLLIN, 8);
    EXPECT_EQ(waited(kLong), (Came{{EPOLLIN, 8}}));
    close(other[1]);
}

INSTANTIATE_TEST_SUITE_P(Waits, EveryWait, testing::Bool(),
                         [](const auto& info) { return info.param ? "by_ring" : "by_epoll"; });

}  // namespace
}  // namespace chainio::runtime_tool
