// What a person would write for two processes that talk over a Unix socket: it takes all requests that are there, and
// answers them in one piece.
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "runtime/ipc/own_fd.h"
#include "tests/bench/rings/wire.h"

namespace chainio::bench_rings {
namespace {

ipc::OwnFd listening(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ipc::OwnFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd || path.size() >= sizeof address.sun_path) return {};
    std::memcpy(address.sun_path, path.data(), path.size());
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(fd.get(), 16) != 0)
        return {};
    return fd;
}

// A client's end ends it.
void serve_one(int fd, unsigned spin_us) {
    std::array<char, 1024 * kNumberBytes> in;
    std::vector<char> out;
    for (std::size_t got = 0;;) {
        ssize_t more = -1;
        const auto look = [&](int flags) {
            return more = recv(fd, in.data() + got, in.size() - got, flags), more >= 0;
        };
        if (spin_us == 0 || !looked(spin_us, [&] { return look(MSG_DONTWAIT); })) look(0);
        if (more <= 0) return;
        got += static_cast<std::size_t>(more);
        out.clear();
        std::size_t at = 0;
        for (; got - at >= kNumberBytes; at += kNumberBytes) {
            out.insert(out.end(), in.data() + at, in.data() + at + kNumberBytes);
            out.insert(out.end(), kFixed, kFixed + kFixedBytes);
        }
        std::memmove(in.data(), in.data() + at, got - at);
        got -= at;
        if (send(fd, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) return;
    }
}

}  // namespace

int serve_echo(const Serve& serve) {
    const ipc::OwnFd listener = listening(serve.path);
    if (!listener) {
        std::perror("bench_rings serve-echo");
        return 3;
    }
    std::puts("serving");
    std::fflush(stdout);
    while (true) {
        const ipc::OwnFd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client) serve_one(client.get(), serve.spin_us);
    }
}

}  // namespace chainio::bench_rings
