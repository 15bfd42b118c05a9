// What the daemon's thread waits for: the turns of the ring that its sockets and reads share, and descriptors beside
// it.
#pragma once
#include <sys/epoll.h>

#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/ring/shared.h"

namespace chainio::runtime_tool {

class Waits {
  public:
    // `ring` may be null: only descriptors then.
    static std::expected<std::unique_ptr<Waits>, std::string> create(ring::Shared* ring);
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;
    ~Waits();

    // In the next wait() `fd` is waited for with these EPOLL… events. `key` names it, and nothing else that ever had
    // the same descriptor. What is not wanted again is let go of. False, with errno: the kernel has no room for it, as
    // where fs.epoll.max_user_watches is reached; the next wait() is short then.
    bool want(int fd, std::uint32_t events, std::uint64_t key);
    // A turn of the ring, until something has come, or at most `timeout_ms` (-1: however long). Gives what the
    // descriptors have to say.
    std::expected<std::span<const epoll_event>, std::string> wait(int timeout_ms);

  private:
    struct Wanted {
        std::uint64_t key = 0, wait = 0;  // the wait that it was wanted for last
        std::uint32_t events = 0;         // 0: the kernel does not know of it
    };
    // What is waited for now and then, as a look at the files, is to take no memory amid requests.
    Waits(ring::Shared* ring, int epoll) : ring_(ring), epoll_(epoll), wanted_(kAtOnce), events_(kAtOnce) {
        known_.reserve(kAtOnce);
    }
    void let_go();
    std::span<const epoll_event> look(int timeout_ms);

    static constexpr std::size_t kAtOnce = 64;
    static constexpr int kAgainMs = 100;
    ring::Shared* ring_;
    std::unique_ptr<ring::Seat> seat_;
    int epoll_;
    bool armed_ = false;          // the ring looks at the descriptors
    bool is_short_ = false;       // something is wanted that the kernel had no room for
    std::vector<Wanted> wanted_;  // by descriptor
    std::vector<int> known_;      // descriptors of which the kernel knows
    std::uint64_t wait_ = 1;
    std::vector<epoll_event> events_;
};

}  // namespace chainio::runtime_tool
