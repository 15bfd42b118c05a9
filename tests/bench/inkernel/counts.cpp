#include "tests/bench/inkernel/counts.h"

#include <linux/perf_event.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <initializer_list>

#include "tests/bench/lookup/os.h"

namespace chainio::bench {
namespace {

constexpr std::size_t kStack = std::size_t{64} << 10;
constexpr std::uint64_t kTurn = 2;  // instructions

int turn(void* turns) {
    asm volatile("1: addq $1, (%0)\n jmp 1b" : : "r"(turns) : "memory");
    __builtin_unreachable();
}

}  // namespace

std::expected<std::unique_ptr<IdleTime>, std::string> IdleTime::start() {
    std::unique_ptr<IdleTime> idle(new IdleTime);
    idle->stack_ = std::make_unique<std::uint8_t[]>(kStack);
    idle->pid_ = clone(turn, idle->stack_.get() + kStack, CLONE_VM | SIGCHLD, &idle->turns_);
    if (idle->pid_ < 0) return std::unexpected(errno_text("clone"));
    const sched_param lowest{};
    if (sched_setscheduler(idle->pid_, SCHED_IDLE, &lowest) != 0)
        return std::unexpected(errno_text("sched_setscheduler"));
    return idle;
}

IdleTime::~IdleTime() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
}

std::uint64_t IdleTime::instructions() const { return kTurn * turns_.load(std::memory_order_relaxed); }

std::expected<SyscallCount, std::string> SyscallCount::start(pid_t thread) {
    constexpr const char* kId = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";
    perf_event_attr what{};
    what.size = sizeof what;
    what.type = PERF_TYPE_TRACEPOINT;
    if (!(std::ifstream(kId) >> what.config)) return std::unexpected(std::string(kId) + " cannot be read");
    const auto fd = static_cast<int>(syscall(SYS_perf_event_open, &what, thread, -1, -1, PERF_FLAG_FD_CLOEXEC));
    if (fd < 0) return std::unexpected(errno_text("perf_event_open"));
    return SyscallCount(fd);
}

SyscallCount::~SyscallCount() {
    if (fd_ >= 0) close(fd_);
}

std::uint64_t SyscallCount::read() const {
    std::uint64_t count = 0;
    return ::read(fd_, &count, sizeof count) == sizeof count ? count : 0;
}

Meter::Instant Meter::now() const {
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    const std::uint64_t syscalls = syscalls_ != nullptr ? syscalls_->read() : 0;
    return {__rdtsc(), idle_.instructions(), static_cast<std::uint64_t>(used.ru_nvcsw), syscalls};
}

void Meter::end() {
    constexpr std::uint64_t own = 2;  // getrusage, and reading the count
    const Instant end = now();
    counts_.instructions = end.clock - begin_.clock - (end.idle - begin_.idle);
    counts_.switches = end.switches - begin_.switches;
    counts_.syscalls = syscalls_ != nullptr ? end.syscalls - begin_.syscalls - own : 0;
}

std::string clock_obstacle(const IdleTime& idle) {
    // Ten million instructions; ticks of the clock may come in between.
    constexpr std::uint64_t kRounds = 5'000'000;
    std::array<std::uint64_t, 3> seen{};
    for (auto& each : seen) {
        Meter meter(idle, nullptr);
        meter.begin();
        std::uint64_t rounds = kRounds;
        asm volatile("1: subq $1, %0\n jnz 1b" : "+r"(rounds));
        meter.end();
        each = meter.counts().instructions;
    }
    std::ranges::sort(seen);
    if (seen[1] > 2 * kRounds * 98 / 100 && seen[1] < 2 * kRounds * 125 / 100) return {};
    return "the clock does not count instructions: " + std::to_string(2 * kRounds) + " of them took " +
           std::to_string(seen[1]) + " ticks; run this by tools/bench inkernel";
}

}  // namespace chainio::bench
