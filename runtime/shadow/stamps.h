// Whether a file has changed, by what fstat() says of it.
#pragma once
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

namespace chainio::shadow {

// A file's times move on in steps: a change within the step of the last one would leave them as they are. Of times in
// whole seconds nobody knows whether the file system has others.
inline constexpr std::int64_t kStep = 50'000'000, kCoarseStep = 2'100'000'000;  // ns

// Whether another change from now on will be seen in its times.
inline bool is_settled(const struct stat& info) {
    const auto in_ns = [](const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const bool coarse = info.st_mtim.tv_nsec == 0 && info.st_ctim.tv_nsec == 0;
    const std::int64_t last = std::max(in_ns(info.st_mtim), in_ns(info.st_ctim));
    return in_ns(now) - last >= (coarse ? kCoarseStep : kStep);
}

}  // namespace chainio::shadow
