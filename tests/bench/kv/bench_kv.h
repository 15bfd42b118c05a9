// tools/bench kv: a load generator that verifies every reply, and servers to compare with, each as well as it can be
// written by hand. Items are numbered; keys and values follow from the number.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace chainio::bench_kv {

inline constexpr std::size_t kKeyBytes = 10;  // "k000000042"
inline constexpr std::size_t kFrame = 8;      // of memcached over UDP: id, number, of how many, 0
inline constexpr std::size_t kMostValue = 1400,
                             kBlock = 4096;  // a reply is one datagram; a flat file has an item a block

struct Items {
    std::uint32_t count = 0;
    std::uint32_t value_bytes = 0;
};

inline std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

// Printable, so that the text forms of all tools hold it.
inline void fill_value(std::uint32_t number, std::span<char> out) {
    for (std::size_t at = 0; at < out.size(); at += 8) {
        const std::uint64_t word = (mixed(number * 1315423911ULL + at) & 0x0f0f0f0f0f0f0f0fULL) + 0x6161616161616161ULL;
        std::memcpy(out.data() + at, &word, std::min<std::size_t>(8, out.size() - at));
    }
}

inline void write_key(std::uint32_t number, char* out) {
    out[0] = 'k';
    for (std::size_t i = kKeyBytes - 1; i > 0; i--, number /= 10) out[i] = static_cast<char>('0' + number % 10);
}

// The number in "get k000000042\r\n"; all ones when it is none.
inline std::uint32_t number_of(std::span<const char> request) {
    if (request.size() < 4 + kKeyBytes || std::memcmp(request.data(), "get k", 5) != 0) return UINT32_MAX;
    std::uint32_t number = 0;
    for (std::size_t i = 5; i < 4 + kKeyBytes; i++) number = number * 10 + static_cast<std::uint32_t>(request[i] - '0');
    return number;
}

// "VALUE k000000042 0 1000\r\n" before a value, and what follows it.
inline constexpr char kTail[] = "\r\nEND\r\n";
inline constexpr std::size_t kTailBytes = sizeof kTail - 1;
inline std::size_t write_head(std::uint32_t number, std::uint32_t value_bytes, char* out) {
    std::memcpy(out, "VALUE ", 6);
    write_key(number, out + 6);
    const std::string rest = " 0 " + std::to_string(value_bytes) + "\r\n";
    std::memcpy(out + 6 + kKeyBytes, rest.data(), rest.size());
    return 6 + kKeyBytes + rest.size();
}

// Of a datagram with memcached's frame.
inline std::uint16_t id_of(std::span<const char> packet) {
    return static_cast<std::uint16_t>(static_cast<unsigned char>(packet[0]) << 8 |
                                      static_cast<unsigned char>(packet[1]));
}

struct Load {
    std::string address;
    std::string interface, own, peer_mac;  // of datagrams
    std::uint16_t port = 0;
    Items items;
    std::uint32_t hot = 0;           // 0: all items alike; else Zipf over so many
    bool udp = false, echo = false;  // datagrams by AF_XDP; the reply is the request
    unsigned outstanding = 1;
    double seconds = 1, rate = 0;  // 0: closed loop; else so many requests a second, at random times
    std::uint64_t seed = 1;
};

struct Serve {
    std::string address, file;  // the flat file
    std::string interface;      // of serve_echo
    std::uint16_t port = 0;
    Items items;
    bool udp = true;
    std::uint32_t spin_us = 0;  // of serve_fixed: looks that long before it sleeps
};

// Each gives an exit code; servers run until SIGTERM, and print a line once they serve.
int run_load(const Load& load);
int run_make(const std::string& lines, const std::string& flat, const Items& items);
int run_fill(const Load& load);
int serve_pread(const Serve& serve);
int serve_fixed(const Serve& serve);
int serve_memory(const Serve& serve);
int serve_echo(const Serve& serve);

// For the servers: a bound socket, or -1 with the reason on standard error.
int bound_socket(const Serve& serve);
extern volatile bool g_stop;  // set by SIGTERM
void announce();

}  // namespace chainio::bench_kv
