#pragma once
#include <time.h>

#include <cstdint>

namespace chainio::shadow {

inline std::uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

// How long ago `since` was, seen from `now`; 0 where the caller's `now` was taken before `since` was.
inline std::uint64_t elapsed_ns(std::uint64_t since, std::uint64_t now) { return now > since ? now - since : 0; }

}  // namespace chainio::shadow
