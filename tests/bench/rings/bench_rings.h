// tools/bench rings: a load generator that verifies every reply, and servers to compare with. Items are bench_kv's.
#pragma once
#include <cstdint>
#include <string>

#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_rings {

struct Load {
    std::string way;   // ring, unix, tcp, udp; or pread, uring: it reads the items itself
    std::string asks;  // memcached, redis, fixed; of who reads itself: value
    std::string path;  // of a ring, a Unix socket, a file with an item a block
    std::uint16_t port = 0;
    bench_kv::Items items{.count = 1, .value_bytes = 1000};
    std::uint32_t hot = 0;     // 0: all items alike; else Zipf over so many
    unsigned outstanding = 1;  // requests that are always on their way
    unsigned connections = 1;  // of streams, each with its share of these
    unsigned threads = 1;      // of who reads itself, each with its share
    double seconds = 1;
    unsigned spin_us = 0;  // how long it looks for replies before it sleeps
    std::uint64_t seed = 1;
    int server = 0;  // its process, for what it used meanwhile
};

struct Serve {
    std::string path;
    unsigned spin_us = 0;
};

// What the fixed service of rings.chain replies behind the request's number.
inline constexpr char kFixed[] = "sixty bytes that are the same in each reply to anyone, fixed";
inline constexpr std::size_t kFixedBytes = sizeof kFixed - 1;
inline constexpr std::size_t kNumberBytes = 4;

// Each gives an exit code.
int run_load(const Load& load);
int run_fill(const Load& load);
int serve_echo(const Serve& serve);

}  // namespace chainio::bench_rings
