// Which processes hold rings, whoever set them up: those here are set up by system calls that nobody tells of.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "runtime/shadow/process_rings.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

std::uint32_t own() { return static_cast<std::uint32_t>(getpid()); }

// As whoever sets one up does to use it.
class Ring {
  public:
    Ring() {
        io_uring_params parameters{};
        const int fd = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
        if (fd < 0) return;
        memory_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
        close(fd);
    }
    ~Ring() {
        if (memory_ != MAP_FAILED) munmap(memory_, kBytes);
    }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    bool failed() const { return memory_ == MAP_FAILED; }

  private:
    static constexpr std::size_t kBytes = 64;
    void* memory_ = MAP_FAILED;
};

class Context {
  public:
    Context() { failed_ = syscall(SYS_io_setup, 4, &context_) != 0; }
    ~Context() {
        if (!failed_) syscall(SYS_io_destroy, context_);
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    bool failed() const { return failed_; }

  private:
    aio_context_t context_ = 0;
    bool failed_;
};

TEST(ProcessRings, AContextOfAioIsFoundAtTheFirstLook) {
    const Context context;
    ASSERT_FALSE(context.failed()) << std::strerror(errno);
    ProcessRings rings;
    rings.watch(own());
    EXPECT_EQ(rings.holders(ProcessRings::aio), 1u);
    EXPECT_EQ(rings.holders(ProcessRings::uring), 0u);
    EXPECT_EQ(ProcessRings::held_by(own()), ProcessRings::aio);
}

TEST(ProcessRings, WhatIsSetUpLaterIsFoundLaterAndOnce) {
    ProcessRings rings;
    rings.watch(own());
    for (int i = 0; i < 100; i++) rings.tick();
    EXPECT_EQ(rings.holders(ProcessRings::aio), 0u);
    const Context context;
    ASSERT_FALSE(context.failed()) << std::strerror(errno);
    for (int i = 0; i < 16; i++) rings.tick();
    EXPECT_EQ(rings.holders(ProcessRings::aio), 1u);
    const Ring ring;
    if (ring.failed()) GTEST_SKIP() << "there is no io_uring here: " << std::strerror(errno);
    EXPECT_EQ(ProcessRings::held_by(own()), ProcessRings::aio | ProcessRings::uring);
    rings.look_at_all();
    rings.told(own(), ProcessRings::uring);
    rings.told(own(), ProcessRings::aio);
    rings.watch(own());
    EXPECT_EQ(rings.holders(ProcessRings::aio), 1u);
    EXPECT_EQ(rings.holders(ProcessRings::uring), 1u);
}

// A program may end before it is time for the next look.
TEST(ProcessRings, AreLookedForOnceMoreAtTheEndOfARun) {
    const Folder folder;
    const std::string path = folder.write("a.ptr", std::string(4096, '\0'));
    Running running(server_of(kPointers));
    tests::Poster poster(running.region(), 0);
    ASSERT_TRUE(poster.opened(0, path));
    ASSERT_TRUE(happens([&] { return poster.taken() && running.stats().processes == 1; }));
    const Context context;
    ASSERT_FALSE(context.failed()) << std::strerror(errno);
    running.stop();
    const auto notes = running.server().report().notes;
    EXPECT_EQ(std::ranges::count(notes,
                                 "a process has set up a kernel AIO context: its operations on it are not seen (once)"),
              1);
}

TEST(ProcessRings, WhatIsToldCountsWithoutALook) {
    ProcessRings rings;
    rings.told(own(), ProcessRings::uring);
    EXPECT_EQ(rings.holders(ProcessRings::uring), 1u);
    EXPECT_EQ(rings.holders(ProcessRings::aio), 0u);
}

// Whoever waits for that at the other end is told at once.
TEST(ProcessRings, ALookHoldsNothingThatTheProcessCloses) {
    constexpr int kPipes = 20000;
    std::atomic<bool> done = false;
    const std::jthread looks([&] {
        while (!done) EXPECT_EQ(ProcessRings::held_by(own()), 0u);
    });
    int ended = 0;
    for (int i = 0; i < kPipes; i++) {
        int ends[2] = {-1, -1};
        if (pipe2(ends, O_CLOEXEC) != 0) continue;
        close(ends[1]);
        pollfd end = {.fd = ends[0], .events = POLLIN, .revents = 0};
        ended += poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
        close(ends[0]);
    }
    done = true;
    EXPECT_EQ(ended, kPipes);
}

TEST(ProcessRings, OfAProcessThatIsNotThereNothingIsSaid) {
    EXPECT_EQ(ProcessRings::held_by(0x7fffffff), std::nullopt);
    ProcessRings rings;
    rings.watch(0x7fffffff);
    rings.tick();
    EXPECT_EQ(rings.holders(ProcessRings::uring) + rings.holders(ProcessRings::aio), 0u);
}

}  // namespace
}  // namespace chainio::shadow::test
