// One way of looking keys up in a file of pages; the benchmarks run several on the same keys.
#pragma once
#include <cstdint>
#include <expected>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace chainio::bench {

// What a page says of a key.
struct Descent {
    enum class Kind { child, found, missing, malformed } kind;
    std::uint32_t page = 0;                 // child: the next page to read
    std::span<const std::uint8_t> value{};  // found: the value's bytes
};

struct Job {
    std::string db;          // the file, or a disk
    std::uint32_t root = 0;  // its root page; pages count from 1
    std::uint32_t page_size = 0;
    std::vector<std::uint64_t> keys;  // in the order in which they are asked for
    unsigned depth = 1;               // lookups in flight
    std::uint64_t cache_bytes = 0;    // 0: every block is read from the device
    unsigned cache_levels = 0;        // how many levels from the root the cache may hold
    std::string spec;                 // the compiled chain
    std::uint32_t spin_us = 0;        // that engine looks for completions so long before it sleeps
    bool kernel = false;              // the chain is run by the kernel engine, `depth` of them a system call
    // How a person would read page `number`, and where the value lies in what the chain returns.
    Descent (*descend)(std::span<const std::uint8_t> page, std::uint32_t number, std::uint64_t key) = nullptr;
    std::span<const std::uint8_t> (*value_of)(std::span<const std::uint8_t> result) = nullptr;
    bool warm_up = false;  // one lookup more before those that count, in which an engine does what it does once
    std::function<void()> on_begin = [] {}, on_end = [] {};  // around the lookups, without opening and closing
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
