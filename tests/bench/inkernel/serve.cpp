#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "tests/bench/inkernel/requests.h"
#include "tests/bench/inkernel/tree.h"
#include "tests/bench/lookup/os.h"

namespace chainio::bench {
namespace {

constexpr int kReady = 256;  // connections that one look finds

int listen_anywhere(std::uint16_t& port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 512) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        return -1;
    port = ntohs(address.sin_port);
    return fd;
}

bool watch(int epoll, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void take(int epoll, int listener) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const int on = 1;
    if (fd < 0) return;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!watch(epoll, fd)) ::close(fd);
}

// The value of a key; empty when there is none, or the disk fails.
std::span<const std::uint8_t> look_up(const File& file, const AlignedBlock& block, std::uint64_t key) {
    Descent at{Descent::Kind::child, 1};
    while (at.kind == Descent::Kind::child) {
        const auto offset = static_cast<off_t>(at.page - 1) * kTreePage;
        const ssize_t got = ::pread(file.fd(), block.bytes().data(), kTreePage, offset);
        if (got != static_cast<ssize_t>(kTreePage)) return {};
        at = descend_tree(block.bytes().first(kTreePage), at.page, key);
    }
    return at.kind == Descent::Kind::found ? at.value : std::span<const std::uint8_t>{};
}

// A request is one small packet here, as the client sends it.
bool answer(int fd, const File& file, const AlignedBlock& block) {
    std::uint64_t key = 0;
    if (::recv(fd, &key, sizeof key, 0) != static_cast<ssize_t>(sizeof key)) return false;
    const auto value = look_up(file, block, key);
    return !value.empty() && ::send(fd, value.data(), value.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(value.size());
}

}  // namespace

std::expected<void, std::string> serve_by_preads(const std::string& path) {
    auto file = File::open_direct(path);
    if (!file) return std::unexpected(file.error());
    const AlignedBlock block(kTreePage);
    std::uint16_t port = 0;
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC), listener = listen_anywhere(port);
    if (epoll < 0 || listener < 0 || !watch(epoll, listener)) return std::unexpected(errno_text("listen"));
    std::printf("%u\n", port);
    std::fflush(stdout);
    std::array<epoll_event, kReady> ready{};
    for (;;) {
        const int count = ::epoll_wait(epoll, ready.data(), kReady, -1);
        if (count < 0 && errno != EINTR) return std::unexpected(errno_text("epoll_wait"));
        for (int i = 0; i < count; i++) {
            const int fd = ready[static_cast<std::size_t>(i)].data.fd;
            if (fd == listener)
                take(epoll, listener);
            else if (!answer(fd, *file, block))
                ::close(fd);
        }
    }
}

}  // namespace chainio::bench
