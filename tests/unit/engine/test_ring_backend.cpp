// Reads by an io_uring that is not the engine's own: what the engine counts of it.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "runtime/engine/backend.h"
#include "runtime/ring/shared.h"

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

}  // namespace
}  // namespace chainio::engine::test
