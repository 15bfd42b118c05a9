// What a piece of work costs a machine of one CPU whose clock counts instructions (tools/vm --icount).
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>

namespace chainio::bench {

struct Counts {
    std::uint64_t instructions = 0;  // of the whole machine, interrupts too; those of idle time left out
    std::uint64_t syscalls = 0;      // of this thread; 0 unless they are counted
    std::uint64_t switches = 0;      // voluntary ones, of this thread
};

// Time in which the machine would be idle is taken by a process of the lowest kind, which counts its turns: the clock
// less its turns is what everything else cost. It shares our memory, so that its turn changes no address space.
class IdleTime {
  public:
    static std::expected<std::unique_ptr<IdleTime>, std::string> start();
    IdleTime(const IdleTime&) = delete;
    IdleTime& operator=(const IdleTime&) = delete;
    ~IdleTime();
    std::uint64_t instructions() const;

  private:
    IdleTime() = default;
    alignas(64) std::atomic<std::uint64_t> turns_ = 0;
    std::unique_ptr<std::uint8_t[]> stack_;
    pid_t pid_ = -1;
};

// The system calls of a thread (0: this one), which perf's tracepoint counts.
class SyscallCount {
  public:
    static std::expected<SyscallCount, std::string> start(pid_t thread = 0);
    SyscallCount(SyscallCount&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    SyscallCount(const SyscallCount&) = delete;
    SyscallCount& operator=(const SyscallCount&) = delete;
    SyscallCount& operator=(SyscallCount&&) = delete;
    ~SyscallCount();
    std::uint64_t read() const;  // a system call itself, and the first that it counts

  private:
    explicit SyscallCount(int fd) : fd_(fd) {}
    int fd_;
};

class Meter {
  public:
    Meter(const IdleTime& idle, const SyscallCount* syscalls) : idle_(idle), syscalls_(syscalls) {}
    void begin() { begin_ = now(); }
    void end();
    const Counts& counts() const { return counts_; }

  private:
    struct Instant {
        std::uint64_t clock, idle, switches, syscalls;
    };
    Instant now() const;
    const IdleTime& idle_;
    const SyscallCount* syscalls_;
    Instant begin_{};
    Counts counts_;
};

// Empty when the clock counts instructions; else what it does instead.
std::string clock_obstacle(const IdleTime& idle);

}  // namespace chainio::bench
