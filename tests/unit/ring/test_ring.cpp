#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/ring/ring.h"
#include "tests/support/in_child.h"

namespace chainio::ring {
namespace {

std::string file_with(const std::string& text, int& fd) {
    std::string path = testing::TempDir() + "chainio-ring-XXXXXX";
    fd = mkstemp(path.data());
    EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return path;
}

// Reads the file through the ring into `memory` and compares.
void read_through(Ring& ring, int fd, bool registered_file, bool registered_memory, void* memory,
                  const std::string& want) {
    ASSERT_EQ(ring.bind_to_thread(), 0);
    io_uring_sqe* sqe = io_uring_get_sqe(ring.get());
    ASSERT_NE(sqe, nullptr);
    const int target = registered_file ? 0 : fd;
    if (registered_memory)
        io_uring_prep_read_fixed(sqe, target, memory, static_cast<unsigned>(want.size()), 0, 0);
    else
        io_uring_prep_read(sqe, target, memory, static_cast<unsigned>(want.size()), 0);
    if (registered_file) sqe->flags |= IOSQE_FIXED_FILE;
    ASSERT_EQ(io_uring_submit_and_wait(ring.get(), 1), 1);
    io_uring_cqe* cqe = nullptr;
    ASSERT_EQ(io_uring_peek_cqe(ring.get(), &cqe), 0);
    EXPECT_EQ(cqe->res, static_cast<int>(want.size()));
    io_uring_cqe_seen(ring.get(), cqe);
    EXPECT_EQ(std::memcmp(memory, want.data(), want.size()), 0);
}

class RingLevels : public testing::TestWithParam<RingOptions::Level> {};

TEST_P(RingLevels, ReadsWithRegisteredFilesAndBuffers) {
    metrics::Fallbacks fallbacks;
    auto ring = Ring::create({.entries = 8, .cq_entries = 16, .file_slots = 4, .level = GetParam()}, fallbacks);
    if (!ring) GTEST_SKIP() << ring.error();
    int fd = -1;
    const std::string path = file_with("block of the disk", fd);
    void* memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const std::size_t registered = ring->register_region(memory, 1 << 20, fallbacks);
    const bool file = ring->register_file(0, fd, fallbacks);
    EXPECT_TRUE(file);
    read_through(*ring, fd, file, registered != 0, memory, "block of the disk");
    ring->unregister_file(0);
    munmap(memory, 1 << 20);
    close(fd);
    unlink(path.c_str());
}

// Each thread's first ring has the number 0 there.
TEST_P(RingLevels, GoesInAnotherThreadWithoutHarmToTheRingThere) {
    metrics::Fallbacks fallbacks;
    const RingOptions options{.entries = 8, .cq_entries = 16, .file_slots = 4, .level = GetParam()};
    int fd = -1;
    const std::string path = file_with("block of the disk", fd);
    const auto in_thread = [](const auto& body) { std::thread(body).join(); };
    in_thread([&] {
        auto first = Ring::create(options, fallbacks);
        ASSERT_TRUE(first && first->bind_to_thread() == 0);
        in_thread([&] {
            auto own = Ring::create(options, fallbacks);
            ASSERT_TRUE(own && own->bind_to_thread() == 0 && own->register_file(0, fd, fallbacks));
            std::array<char, 64> memory{};
            first->unregister_file(0);
            read_through(*own, fd, true, false, memory.data(), "block of the disk");
            static_cast<void>(Ring(std::move(*first)));
            read_through(*own, fd, true, false, memory.data(), "block of the disk");
        });
    });
    close(fd);
    unlink(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Kernels, RingLevels,
                         testing::Values(RingOptions::Level::newest, RingOptions::Level::single_issuer,
                                         RingOptions::Level::cooperative, RingOptions::Level::plain));

TEST(Ring, WithoutAFileTableReadsByDescriptor) {
    metrics::Fallbacks fallbacks;
    auto ring = Ring::create({.entries = 8, .cq_entries = 16, .file_slots = 0}, fallbacks);
    if (!ring) GTEST_SKIP() << ring.error();
    int fd = -1;
    const std::string path = file_with("bytes", fd);
    EXPECT_FALSE(ring->register_file(0, fd, fallbacks));
    std::vector<char> memory(64);
    read_through(*ring, fd, false, false, memory.data(), "bytes");
    close(fd);
    unlink(path.c_str());
}

TEST(Ring, CompletionsMakeItsEventDescriptorReadable) {
    metrics::Fallbacks fallbacks;
    auto ring = Ring::create({.entries = 8, .cq_entries = 16, .file_slots = 0}, fallbacks);
    if (!ring) GTEST_SKIP() << ring.error();
    ASSERT_EQ(ring->bind_to_thread(), 0);
    const int events = ring->event_fd();
    ASSERT_GE(events, 0);
    EXPECT_EQ(ring->event_fd(), events);
    pollfd poller{events, POLLIN, 0};
    EXPECT_EQ(poll(&poller, 1, 0), 1) << "something may have come before it was there";
    ring->drain_events();
    EXPECT_EQ(poll(&poller, 1, 0), 0);
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    char byte = 0;
    io_uring_prep_read(io_uring_get_sqe(ring->get()), pipes[0], &byte, 1, 0);
    ASSERT_EQ(io_uring_submit(ring->get()), 1);
    EXPECT_EQ(poll(&poller, 1, 0), 0);
    ASSERT_EQ(write(pipes[1], "x", 1), 1);
    EXPECT_EQ(poll(&poller, 1, 10000), 1);
    ASSERT_GE(io_uring_submit_and_wait(ring->get(), 1), 0);
    io_uring_cqe* cqe = nullptr;
    ASSERT_EQ(io_uring_peek_cqe(ring->get(), &cqe), 0);
    EXPECT_EQ(byte, 'x');
    close(pipes[0]);
    close(pipes[1]);
}

// The kernel holds a registered file open: its space would not be free, nor the other end of a pipe hear of the end.
TEST(Ring, LetsGoOfAFileThatIsNotRegisteredAnyMore) {
    metrics::Fallbacks fallbacks;
    auto ring = Ring::create({.entries = 8, .cq_entries = 16, .file_slots = 4}, fallbacks);
    if (!ring) GTEST_SKIP() << ring.error();
    ASSERT_EQ(ring->bind_to_thread(), 0);
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    ASSERT_TRUE(ring->register_file(2, pipes[1], fallbacks));
    close(pipes[1]);
    pollfd poller{pipes[0], POLLIN, 0};
    EXPECT_EQ(poll(&poller, 1, 0), 0) << "the ring has it";
    ring->unregister_file(2);
    EXPECT_EQ(poll(&poller, 1, 60'000), 1);
    EXPECT_EQ(poller.revents, POLLHUP);
    close(pipes[0]);
}

TEST(Ring, RegistersOnlyWhatTheMemoryLimitAllowsAndSaysSo) {
    const int code = tests::in_child([] {
        const rlimit limit{1 << 20, 1 << 20};
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 77;
        // CAP_IPC_LOCK goes with root; what others of the same user lock would count too.
        if (geteuid() == 0 && setuid(1'000'000 + static_cast<uid_t>(getpid())) != 0) return 77;
        metrics::Fallbacks fallbacks;
        auto ring = Ring::create({.entries = 8, .cq_entries = 16, .file_slots = 0}, fallbacks);
        if (!ring) return 77;
        void* memory = mmap(nullptr, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        metrics::Fallbacks of_whole;
        if (ring->register_whole(memory, 8 << 20, of_whole)) return 5;
        if (!of_whole.all()[0].reason.starts_with("0 KiB of 8192 KiB of block memory are registered, all is")) return 6;
        const std::size_t registered = ring->register_region(memory, 8 << 20, fallbacks);
        if (registered > (1 << 20) || registered < (768 << 10)) return 1;
        if (registered % (128 << 10) != 0) return 2;
        if (fallbacks.count("unregistered-buffers") != 1) return 3;
        return fallbacks.all().back().reason.find("RLIMIT_MEMLOCK") == std::string::npos ? 4 : 0;
    });
    if (code == 77) GTEST_SKIP() << "this process cannot give up its privileges, or has no io_uring";
    EXPECT_EQ(code, 0);
}

// What one registers leaves room for the rings of others, of whom there may be many: threads and processes of a user.
TEST(Ring, LeavesRoomForTheRingsOfOthers) {
    const int code = tests::in_child([] {
        const rlimit limit{8 << 20, 8 << 20};
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 77;
        if (geteuid() == 0 && setuid(2'000'000 + static_cast<uid_t>(getpid())) != 0) return 77;
        metrics::Fallbacks fallbacks;
        std::vector<Ring> rings;
        for (int i = 0; i < 8; i++) {
            auto ring = Ring::create({.entries = 1024, .cq_entries = 2048, .file_slots = 0}, fallbacks);
            if (!ring) return i == 0 ? 77 : i;
            void* memory = mmap(nullptr, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            const std::size_t registered = ring->register_region(memory, 8 << 20, fallbacks);
            if (i == 0 && registered < (6 << 20)) return 10;
            rings.push_back(std::move(*ring));
        }
        return 0;
    });
    if (code == 77) GTEST_SKIP() << "this process cannot give up its privileges, or has no io_uring";
    EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace chainio::ring
