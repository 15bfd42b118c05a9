// How requests go out and replies come in.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/ipc/own_fd.h"
#include "tests/bench/rings/bench_rings.h"

namespace chainio::bench_rings {

inline constexpr int kPatienceMs = 1000;  // how long a reply may take
inline constexpr std::uint32_t kUnknown = UINT32_MAX;

enum class Came : std::uint8_t { replies, nothing, end };

class Wire {
  public:
    // Which request it answers, as `ask` named it; kUnknown, where only the reply itself says so.
    using Take = std::function<void(std::uint32_t slot, std::span<const char> reply)>;
    virtual ~Wire() = default;
    // Hands a request over, or keeps it for the next turn, whichever is quicker. False: it cannot leave.
    virtual bool ask(std::uint32_t slot, std::span<const char> request, std::size_t reply_bytes) = 0;
    // Waits for replies, as long as it has patience. What the take asks meanwhile is on its way when the next one
    // waits.
    virtual Came turn(const Take& take) = 0;
    // What was not answered in time will not be.
    virtual bool loses() const { return false; }
};

// Calls `look` again and again until it is true or the time is up; with no time, once.
template <typename Look>
bool looked(unsigned spin_us, Look look) {
    if (look()) return true;
    if (spin_us == 0) return false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_us);
    while (std::chrono::steady_clock::now() < end)
        if (look()) return true;
    return false;
}

// Nothing, with the reason on standard error. `way` says which one.
std::unique_ptr<Wire> open_wire(const Load& load);
std::unique_ptr<Wire> open_ring(const Load& load);
std::unique_ptr<Wire> open_streams(const Load& load);
std::unique_ptr<Wire> open_datagrams(const Load& load);
std::unique_ptr<Wire> open_preads(const Load& load);
std::unique_ptr<Wire> open_uring(const Load& load);

// A connected socket of either kind, or none with the reason on standard error.
ipc::OwnFd connected_socket(const Load& load, int type);

}  // namespace chainio::bench_rings
