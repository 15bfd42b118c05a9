// Sets all items of memcached or redis, a hundred at a time; each is answered with a line.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "tests/bench/rings/wire.h"

namespace chainio::bench_rings {
namespace {

constexpr std::uint32_t kAtOnce = 100;

std::string command(const Load& load, std::uint32_t number) {
    std::string key(bench_kv::kKeyBytes, 0), value(load.items.value_bytes, 0);
    bench_kv::write_key(number, key.data());
    bench_kv::fill_value(number, value);
    const std::string length = std::to_string(value.size());
    if (load.asks == "redis")
        return "*3\r\n$3\r\nSET\r\n$" + std::to_string(key.size()) + "\r\n" + key + "\r\n$" + length + "\r\n" + value +
               "\r\n";
    return "set " + key + " 0 0 " + length + "\r\n" + value + "\r\n";
}

// They are to say that it is there: "STORED" or "+OK".
bool stored(int fd, std::uint32_t count, const std::string& line) {
    std::string want, got;
    for (std::uint32_t i = 0; i < count; i++) want += line;
    std::array<char, 4096> bytes;
    while (got.size() < want.size()) {
        const auto more = recv(fd, bytes.data(), bytes.size(), 0);
        if (more <= 0) return false;
        got.append(bytes.data(), static_cast<std::size_t>(more));
    }
    return got == want;
}

}  // namespace

int run_fill(const Load& load) {
    const ipc::OwnFd fd = connected_socket(load, SOCK_STREAM);
    if (!fd) return 3;
    for (std::uint32_t first = 0; first < load.items.count; first += kAtOnce) {
        const std::uint32_t count = std::min(kAtOnce, load.items.count - first);
        std::string heap;
        for (std::uint32_t i = 0; i < count; i++) heap += command(load, first + i);
        for (std::size_t sent = 0; sent < heap.size();) {
            const auto done = send(fd.get(), heap.data() + sent, heap.size() - sent, MSG_NOSIGNAL);
            if (done <= 0) break;
            sent += static_cast<std::size_t>(done);
        }
        if (stored(fd.get(), count, load.asks == "redis" ? "+OK\r\n" : "STORED\r\n")) continue;
        std::fprintf(stderr, "bench_rings fill: items from %u on were not stored\n", first);
        return 3;
    }
    return 0;
}

}  // namespace chainio::bench_rings
