// What a process has used of the processors.
#pragma once
#include <cstdint>
#include <map>

namespace chainio::bench_rings {

struct Used {
    std::uint64_t busy_ns = 0;
    std::uint64_t switches = 0;  // of its threads, voluntary or not
};

// So far. A thread that ends, as the kernel's workers do, takes its switches with it, but not its time: so switches are
// told apart by thread.
struct Usage {
    std::uint64_t busy_ns = 0;
    std::map<int, std::uint64_t> switches;
    // Since then; of threads that have ended meanwhile, the time alone.
    Used since(const Usage& before) const;
};

Usage usage_of(int process);  // 0: of nobody
Used own_use();

}  // namespace chainio::bench_rings
