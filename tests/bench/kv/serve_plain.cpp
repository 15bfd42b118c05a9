// What most people write: recvfrom, pread, sendto, one request after the other; and, for what the load generator can do
// at all, a server that has every value in memory.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_kv {
namespace {

using Packet = std::array<char, kFrame + 64 + kMostValue + 64>;

std::size_t write_reply(std::uint32_t number, std::span<const char> value, char* out) {
    std::size_t length = write_head(number, static_cast<std::uint32_t>(value.size()), out);
    std::memcpy(out + length, value.data(), value.size());
    length += value.size();
    std::memcpy(out + length, kTail, kTailBytes);
    return length + kTailBytes;
}

template <typename ValueOf>
int serve_datagrams(const Serve& serve, ValueOf value_of) {
    const int fd = bound_socket(serve);
    if (fd < 0) return 3;
    announce();
    while (!g_stop) {
        std::array<char, 256> request;
        Packet reply;
        sockaddr_in peer{};
        socklen_t size = sizeof peer;
        const ssize_t got = recvfrom(fd, request.data(), request.size(), 0, reinterpret_cast<sockaddr*>(&peer), &size);
        if (got < static_cast<ssize_t>(kFrame)) continue;
        const std::uint32_t number = number_of({request.data() + kFrame, static_cast<std::size_t>(got) - kFrame});
        if (number >= serve.items.count) continue;
        const std::span<const char> value = value_of(number);
        if (value.empty()) continue;
        std::memcpy(reply.data(), request.data(), kFrame);
        const std::size_t length = kFrame + write_reply(number, value, reply.data() + kFrame);
        sendto(fd, reply.data(), length, 0, reinterpret_cast<const sockaddr*>(&peer), size);
    }
    return 0;
}

// A request is one small packet here, as the load generator sends it.
template <typename ValueOf>
int serve_streams(const Serve& serve, ValueOf value_of) {
    const int listener = bound_socket(serve);
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (listener < 0 || epoll < 0) return 3;
    epoll_event event{.events = EPOLLIN, .data = {.fd = listener}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    announce();
    while (!g_stop) {
        std::array<epoll_event, 128> events;
        const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
        for (int i = 0; i < count; i++) {
            const int fd = events[static_cast<std::size_t>(i)].data.fd;
            if (fd == listener) {
                event.data.fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
                const int on = 1;
                setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            std::array<char, 256> request;
            Packet reply;
            const ssize_t got = recv(fd, request.data(), request.size(), 0);
            if (got <= 0) {
                close(fd);
                continue;
            }
            const std::uint32_t number = number_of({request.data(), static_cast<std::size_t>(got)});
            if (number >= serve.items.count) continue;
            send(fd, reply.data(), write_reply(number, value_of(number), reply.data()), MSG_NOSIGNAL);
        }
    }
    return 0;
}

}  // namespace

int serve_pread(const Serve& serve) {
    const int file = open(serve.file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (file < 0) {
        std::perror(serve.file.c_str());
        return 3;
    }
    const std::unique_ptr<char, void (*)(void*)> block(static_cast<char*>(std::aligned_alloc(kBlock, kBlock)),
                                                       std::free);
    return serve_datagrams(serve, [&](std::uint32_t number) -> std::span<const char> {
        if (pread(file, block.get(), kBlock, static_cast<off_t>(number) * static_cast<off_t>(kBlock)) != kBlock)
            return {};
        return {block.get(), serve.items.value_bytes};
    });
}

int serve_memory(const Serve& serve) {
    std::vector<char> values(std::size_t{serve.items.count} * serve.items.value_bytes);
    const auto value_of = [&](std::uint32_t number) -> std::span<char> {
        return {values.data() + std::size_t{number} * serve.items.value_bytes, serve.items.value_bytes};
    };
    for (std::uint32_t number = 0; number < serve.items.count; number++) fill_value(number, value_of(number));
    return serve.udp ? serve_datagrams(serve, value_of) : serve_streams(serve, value_of);
}

}  // namespace chainio::bench_kv
