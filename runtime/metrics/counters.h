// Counters of one engine: by chain and outcome, and of what it asked of the kernel.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/metrics/histogram.h"

namespace chainio::metrics {

struct ChainCounters {
    std::vector<std::uint64_t> outcomes;  // by outcome number
    std::uint64_t finished = 0;
    std::uint64_t reads = 0;  // hops: blocks that steps asked for, wherever they came from
    Histogram latency_ns;     // from submit to the end of the chain
};

struct EngineCounters {
    std::uint64_t ring_reads = 0;        // read SQEs
    std::uint64_t fixed_reads = 0;       // of those, into registered memory
    std::uint64_t plain_reads = 0;       // blocking preads, one chain in flight
    std::uint64_t page_cache_reads = 0;  // answered inline by the page cache
    std::uint64_t page_cache_misses = 0;
    std::uint64_t block_cache_hits = 0;  // answered from frames
    std::uint64_t block_cache_misses = 0;
    std::uint64_t block_cache_evictions = 0;
    std::uint64_t bytes_read = 0;
    std::uint64_t syscalls = 0;         // io_uring_enter, pread, preadv2
    std::uint64_t retries = 0;          // EINTR and EAGAIN
    std::uint64_t continued_reads = 0;  // short reads that were carried on
    std::uint64_t frame_waits = 0;      // reads that waited for a frame
    std::uint64_t cancelled_reads = 0;  // blocks that arrived after their chain had ended
};

}  // namespace chainio::metrics
