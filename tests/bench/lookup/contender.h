// One way of looking rows up in a SQLite file; the benchmark runs several on the same keys.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

namespace chainio::bench {

struct Job {
    std::string db;          // a SQLite file whose table `kv` is (id integer primary key, value)
    std::uint32_t root = 0;  // root page of the table
    std::uint32_t page_size = 0;
    std::vector<std::uint64_t> keys;  // in the order in which they are asked for
    unsigned depth = 1;               // lookups in flight
    std::uint64_t cache_bytes = 0;    // 0: every block is read from the device
    unsigned cache_levels = 0;        // how many levels from the root the cache may hold
    std::string spec;                 // the compiled chain
};

struct Outcome {
    double seconds = 0;
    std::uint64_t reads = 0;                // block reads that the contender asked the kernel for
    std::vector<std::uint64_t> value_hash;  // xxh64 of each key's value; 0 when there was none
    std::vector<std::uint32_t> latency_ns;  // of each lookup, from its first read to its value
    std::string note;                       // what a reader of the table should know
};

using Result = std::expected<Outcome, std::string>;
Result run_pread(const Job&);
Result run_uring(const Job&);
Result run_sqlite(const Job&);
Result run_chain(const Job&);

std::uint64_t now_ns();
std::uint64_t hash_value(std::span<const std::uint8_t>);

}  // namespace chainio::bench
