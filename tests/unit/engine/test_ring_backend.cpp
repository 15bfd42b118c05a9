// Reads by an io_uring that is not the engine's own: what the engine counts of it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "runtime/engine/backend.h"
#include "runtime/ring/shared.h"
#include "tests/support/in_child.h"

namespace chainio::engine::test {
namespace {

// In io_uring_enter: of a thread that runs the kernel says no number.
bool sleeps_in_enter(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
    std::string number;
    return file >> number && number == std::to_string(SYS_io_uring_enter);
}

TEST(RingBackend, CountsTheSystemCallsOfTurnsThatSpinFirst) {
    metrics::Fallbacks fallbacks;
    auto ring =
        ring::Shared::create({.entries = 8, .cq_entries = 32, .seats = 1, .file_slots = 1, .spin_us = 1000}, fallbacks);
    if (!ring) GTEST_SKIP() << "there is no io_uring";
    auto region = umem::Region::create(1 << 20, false);
    ASSERT_TRUE(region) << region.error();
    umem::Slab slab(std::move(*region));
    metrics::EngineCounters counters;
    const auto backend =
        make_ring_backend({.depth = 4, .file_slots = 1, .shared = ring->get()}, slab, counters, fallbacks);
    ASSERT_TRUE(backend->by_turns());
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    ASSERT_TRUE(backend->add_file(0, pipes[0]));
    std::uint8_t byte = 0;
    std::jthread writer([&, reader = gettid()] {
        while (!sleeps_in_enter(reader)) std::this_thread::yield();  // the time of spinning is over then
        EXPECT_EQ(write(pipes[1], "x", 1), 1);
    });
    backend->push({.offset = 0, .data = &byte, .length = 1, .file = 0, .token = 7});
    ReadDone done[1];
    ASSERT_EQ(backend->enter(1, done), 1);
    writer.join();
    EXPECT_EQ(done[0].token, 7u);
    EXPECT_EQ(done[0].result, 1);
    EXPECT_EQ(byte, 'x');
    EXPECT_GE(counters.syscalls, 2u) << "one submits, one sleeps";
    EXPECT_EQ(counters.syscalls, (*ring)->calls());
    backend->remove_file(0);
    close(pipes[0]);
    close(pipes[1]);
}

constexpr std::size_t kRegion = 12 * umem::kSlabBytes;

// One engine's memory and reads on a ring that it shares.
struct User {
    User(ring::Shared& ring, metrics::Fallbacks& fallbacks)
        : slab(*umem::Region::create(kRegion, false)),
          backend(make_ring_backend({.depth = 4, .file_slots = 1, .shared = &ring}, slab, counters, fallbacks)) {}
    bool has_registered(std::size_t from, std::size_t bytes) const {
        return backend->buffer_of(slab.region().base() + from, bytes) >= 0;
    }

    umem::Slab slab;
    metrics::EngineCounters counters;
    std::unique_ptr<Backend> backend;
};

// Of two that have more than may be locked together: 0, or which step was wrong.
int registers_the_rest() {
    const rlimit limit{16 * umem::kSlabBytes, 16 * umem::kSlabBytes};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 77;
    // CAP_IPC_LOCK goes with root; what others of the same user lock would count too.
    if (geteuid() == 0 && setuid(1'000'000 + static_cast<uid_t>(getpid())) != 0) return 77;
    metrics::Fallbacks fallbacks;
    auto ring = ring::Shared::create({.entries = 8, .cq_entries = 32, .seats = 2, .file_slots = 1}, fallbacks);
    if (!ring) return 77;
    auto first = std::make_unique<User>(**ring, fallbacks);
    User second(**ring, fallbacks);
    if (!first->has_registered(0, kRegion) || second.has_registered(0, kRegion)) return 1;
    if (!second.has_registered(0, umem::kSlabBytes)) return 2;
    if (fallbacks.all().back().reason.find("(beside 1536 KiB of other memory; RLIMIT_MEMLOCK is 2048 KiB; ") ==
        std::string::npos)
        return 3;
    int pipes[2];
    if (pipe(pipes) != 0 || !second.backend->add_file(0, pipes[0])) return 4;
    // Two reads into what is registered: one that the kernel has, and one that it is not told of yet.
    std::uint8_t* memory = second.slab.region().base();
    ReadDone done[2];
    second.backend->push({.offset = 0, .data = memory, .length = 1, .file = 0, .token = 7});
    if (second.backend->enter(0, done) != 0 || (*ring)->turn(0) != 0) return 5;
    second.backend->push({.offset = 0, .data = memory + 1, .length = 1, .file = 0, .token = 8});
    first.reset();
    second.backend->register_rest();
    if (!second.has_registered(0, kRegion)) return 6;
    const umem::Frame frame = second.slab.allocate(1, 1);
    if (!second.has_registered(std::size_t{frame} * umem::kUnit, 1)) return 7;
    if (write(pipes[1], "xy", 2) != 2 || second.backend->enter(2, done) != 2) return 8;
    return done[0].result == 1 && done[1].result == 1 && memory[0] + memory[1] == 'x' + 'y' ? 0 : 9;
}

TEST(RingBackend, RegistersTheRestOnceAnotherOneHasLetGo) {
    const int code = tests::in_child(registers_the_rest);
    if (code == 77) GTEST_SKIP() << "this process cannot give up its privileges, or has no io_uring";
    EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace chainio::engine::test
