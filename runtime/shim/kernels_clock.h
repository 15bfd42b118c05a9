// The kernel's own clock: where the program has one that stands still (libfaketime), a wait by it would not end.
#pragma once
#include <time.h>

#include <cstdint>

#include "runtime/shim/raw.h"

namespace chainio::shim {

inline std::uint64_t kernels_now_ns() {
    timespec now{};
    raw_call(SYS_clock_gettime, CLOCK_MONOTONIC, word(&now));
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace chainio::shim
