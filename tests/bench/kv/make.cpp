// The items as files, and into memcached.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_kv {
namespace {

int say(const char* what) {
    std::perror(what);
    return 3;
}

}  // namespace

int run_make(const std::string& lines, const std::string& flat, const Items& items) {
    std::FILE* text = std::fopen(lines.c_str(), "we");
    std::FILE* blocks = std::fopen(flat.c_str(), "we");
    if (text == nullptr || blocks == nullptr) return say("bench_kv make");
    std::vector<char> line(kKeyBytes + 1 + items.value_bytes + 1), block(kBlock);
    for (std::uint32_t number = 0; number < items.count; number++) {
        write_key(number, line.data());
        line[kKeyBytes] = '\t';
        fill_value(number, {line.data() + kKeyBytes + 1, items.value_bytes});
        line.back() = '\n';
        std::memcpy(block.data(), line.data() + kKeyBytes + 1, items.value_bytes);
        if (std::fwrite(line.data(), line.size(), 1, text) != 1 || std::fwrite(block.data(), kBlock, 1, blocks) != 1)
            return say("bench_kv make");
    }
    if (std::fclose(text) != 0 || fsync(fileno(blocks)) != 0 || std::fclose(blocks) != 0) return say("bench_kv make");
    return 0;
}

// Sets all items, and waits for the last to be there: a thousand without a reply, then one with.
int run_fill(const Load& load) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(load.port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, load.address.c_str(), &address.sin_addr) != 1 ||
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return say("bench_kv fill");
    std::string heap, value(load.items.value_bytes, 0), key(kKeyBytes, 0);
    for (std::uint32_t number = 0; number < load.items.count; number++) {
        const bool asks = number % 1000 == 999 || number + 1 == load.items.count;
        write_key(number, key.data());
        fill_value(number, value);
        heap +=
            "set " + key + " 0 0 " + std::to_string(value.size()) + (asks ? "\r\n" : " noreply\r\n") + value + "\r\n";
        if (!asks) continue;
        for (std::size_t sent = 0; sent < heap.size();) {
            const ssize_t done = send(fd, heap.data() + sent, heap.size() - sent, MSG_NOSIGNAL);
            if (done <= 0) return say("bench_kv fill");
            sent += static_cast<std::size_t>(done);
        }
        heap.clear();
        std::array<char, 64> answer;
        if (recv(fd, answer.data(), answer.size(), 0) <= 0) return say("bench_kv fill");
    }
    close(fd);
    return 0;
}

}  // namespace chainio::bench_kv
