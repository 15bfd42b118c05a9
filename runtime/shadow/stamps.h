// Whether a file has changed, by what fstat() says of it.
#pragma once
#include <sys/stat.h>
#include <time.h>

#include <cstdint>

#include "runtime/shadow/clock.h"
#include "runtime/shim/served.h"

namespace chainio::shadow {

// A file's times move on in steps: a change within the step of the last one would leave them as they are. Of times in
// whole seconds nobody knows whether the file system has others.
inline constexpr std::int64_t kStep = 50'000'000, kCoarseStep = 2'100'000'000;  // ns

// Since when a file has been seen with the times that it has.
struct Unchanged {
    std::uint64_t stamp = 0, since_ns = 0;  // of stamp_of(), and by CLOCK_MONOTONIC
};

// Whether another change from now on will be seen in its times. Times ahead of our clock say nothing of how long ago
// the last one was: somebody has set them, or they are another machine's.
inline bool is_settled(const struct stat& info, Unchanged& seen) {
    const auto is_later = [](const timespec& one, const timespec& other) {
        return one.tv_sec != other.tv_sec ? one.tv_sec > other.tv_sec : one.tv_nsec > other.tv_nsec;
    };
    const bool coarse = info.st_mtim.tv_nsec == 0 && info.st_ctim.tv_nsec == 0;
    const std::int64_t step = coarse ? kCoarseStep : kStep;
    const timespec last = is_later(info.st_mtim, info.st_ctim) ? info.st_mtim : info.st_ctim;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (is_later(last, now)) {
        const std::uint64_t stamp = shim::stamp_of(info), monotonic = now_ns();
        if (stamp != seen.stamp) seen = {stamp, monotonic};
        return elapsed_ns(seen.since_ns, monotonic) >= static_cast<std::uint64_t>(step);
    }
    constexpr std::int64_t kLongAgo = 10;  // seconds, of which the ns of any date have no room in an integer
    if (last.tv_sec < now.tv_sec - kLongAgo) return true;
    return (now.tv_sec - last.tv_sec) * 1'000'000'000 + now.tv_nsec - last.tv_nsec >= step;
}

}  // namespace chainio::shadow
