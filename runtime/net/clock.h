// The clock of time limits and of what is kept.
#pragma once
#include <chrono>
#include <cstdint>

namespace chainio::net {

inline std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace chainio::net
