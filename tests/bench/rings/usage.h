// What a process has used of the processors so far.
#pragma once
#include <cstdint>

namespace chainio::bench_rings {

struct Usage {
    std::uint64_t busy_ns = 0;
    std::uint64_t switches = 0;  // of its threads, voluntary or not
    Usage operator-(const Usage& before) const { return {busy_ns - before.busy_ns, switches - before.switches}; }
};

// Also of threads that have ended since, as the kernel's workers do; of these the time alone. 0: nobody.
Usage usage_of(int process);
Usage own_usage();

}  // namespace chainio::bench_rings
