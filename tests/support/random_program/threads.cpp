// Threads with files of their own beside each other, and threads that share a descriptor.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

void side_by_side(Actor& a) {
    const unsigned number = process.children++;
    const std::size_t count = 2 + a.rng.below(3);
    std::vector<std::unique_ptr<Actor>> actors;
    for (std::size_t i = 0; i < count; ++i) {
        actors.push_back(
            std::make_unique<Actor>(fmt::format("{}w{}.{}/", a.folder, number, i), a.rng.next(), false, a.depth + 1));
    }
    {
        std::vector<std::jthread> threads;
        for (const auto& actor : actors) {
            threads.emplace_back([&] {
                actor->make_files();
                actor->run(20);
                actor->close_all();
            });
        }
    }
    for (const auto& actor : actors) a.log += actor->log;
}

// One position for all: every byte is read once, by whom does not matter.
void one_position(Actor& a) {
    const std::string path = process.base + "/" + a.folder + "shared.dat";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const auto data = a.random_bytes(20480);
    a.call("write", [&] { return ::write(fd, data.data(), data.size()); });
    ::lseek(fd, 0, SEEK_SET);
    std::atomic<std::uint64_t> sum = 0, count = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 3; ++i) {
            threads.emplace_back([&] {
                std::uint8_t block[512];
                for (ssize_t got = 0; (got = ::read(fd, block, sizeof block)) > 0;) {
                    sum += hash_of(block, static_cast<std::size_t>(got));
                    count += static_cast<std::uint64_t>(got);
                }
            });
        }
    }
    a.text(fmt::format("{} bytes, sum {:016x}", count.load(), sum.load()));
    ::close(fd);
}

// Appends of several threads and a child are all there, in any order.
void appends(Actor& a) {
    const std::string path = process.base + "/" + a.folder + "appended.dat";
    constexpr std::size_t kRecord = 64;
    ::unlink(path.c_str());
    {
        std::vector<std::jthread> threads;
        for (int who = 0; who < 3; ++who) {
            threads.emplace_back([&, who] {
                const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
                for (int i = 0; i < 20; ++i) {
                    const std::string line = fmt::format("{:<63}\n", fmt::format("{} {}", who, i));
                    if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(kRecord)) break;
                }
                ::close(fd);
            });
        }
    }
    const int fd = a.call_fd("open", [&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
    const auto into = a.buffer(100 * kRecord);
    const long got = a.call("read", [&] { return ::read(fd, into.data(), into.size()); });
    std::vector<std::string> lines;
    for (std::size_t at = 0; at + kRecord <= static_cast<std::size_t>(std::max(got, 0L)); at += kRecord) {
        lines.emplace_back(reinterpret_cast<const char*>(into.data()) + at, kRecord);
    }
    std::ranges::sort(lines);
    std::string all;
    for (const std::string& line : lines) all += line;
    a.call("pwrite", [&] { return ::pwrite(fd, all.data(), all.size(), 0); });
    a.bytes(all.data(), static_cast<long>(all.size()));
    ::close(fd);
    if (a.rng.chance(50)) ::unlink(path.c_str());
}

// Threads that take turns on one descriptor, opened by one and closed by another.
void in_turn(Actor& a) {
    std::mutex mutex;
    std::condition_variable moved;
    int turn = 0, fd = -1;
    constexpr int kThreads = 3, kTurns = 9;
    const auto work = [&](int me) {
        for (;;) {
            std::unique_lock lock(mutex);
            moved.wait(lock, [&] { return turn >= kTurns || turn % kThreads == me; });
            if (turn >= kTurns) return;
            const auto into = a.buffer(3000);
            if (fd < 0) {
                const std::string path = a.path(a.file());
                fd = a.call_fd("open", [&] { return ::open(path.c_str(), O_RDONLY); });
            } else if (a.rng.chance(20)) {
                a.call("close", [&] { return ::close(fd); });
                fd = -1;
            } else {
                a.bytes(into.data(), a.call("read", [&] { return ::read(fd, into.data(), 1 + a.rng.below(3000)); }));
            }
            ++turn;
            moved.notify_all();
        }
    };
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
    }
    if (fd >= 0) ::close(fd);
}

// A thread that leaves the common table of descriptors: the same number is another file for it.
void own_table(Actor& a) {
    const int fd = a.open_some(O_RDONLY);
    if (fd < 0) return;
    const auto into = a.buffer(4000);
    std::string log;
    std::jthread([&] {
        if (::unshare(CLONE_FILES) != 0) return;
        Actor mine(a.folder, a.rng.next(), false, a.depth + 1);
        const std::string path = mine.path(mine.file());
        const int other = ::open(path.c_str(), O_RDONLY);
        ::dup2(other, fd);
        mine.bytes(into.data(), mine.call("read in the thread", [&] { return ::read(fd, into.data(), 4000); }));
        log = mine.log;
    }).join();
    a.log += log;
    a.bytes(into.data(), a.call("read", [&] { return ::read(fd, into.data(), 4000); }));
    a.position(fd);
    ::close(fd);
}

}  // namespace

Operations thread_operations() {
    return {{"side by side", 3, side_by_side, false, true},
            {"one position", 2, one_position, false, true},
            {"appends", 1, appends, false, true},
            {"in turn", 2, in_turn, false, true},
            {"own table", 1, own_table, false, true}};
}

}  // namespace chainio::random_program
