// By connections, whose requests are answered in their order: each turn sends what was asked in one piece.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "runtime/ipc/own_fd.h"
#include "tests/bench/rings/protocol.h"
#include "tests/bench/rings/wire.h"

namespace chainio::bench_rings {
namespace {

struct Waiting {
    std::uint32_t slot = 0;
    std::size_t bytes = 0;
};

struct Stream {
    ipc::OwnFd fd;
    std::vector<char> out, in;
    std::size_t got = 0;
    std::deque<Waiting> waiting;
};

class Streams final : public Wire {
  public:
    explicit Streams(unsigned spin_us) : spin_us_(spin_us) {}

    bool connect(const Load& load) {
        streams_.resize(load.connections);
        epoll_ = ipc::OwnFd(epoll_create1(EPOLL_CLOEXEC));
        for (std::uint32_t i = 0; i < streams_.size(); i++) {
            Stream& stream = streams_[i];
            stream.in.resize(kMostReply * load.outstanding);
            stream.fd = connected_socket(load, SOCK_STREAM);
            if (!stream.fd) return false;
            epoll_event event{.events = EPOLLIN, .data = {.u32 = i}};
            epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream.fd.get(), &event);
        }
        return true;
    }

    bool ask(std::uint32_t slot, std::span<const char> request, std::size_t reply_bytes) override {
        Stream& stream = streams_[slot % streams_.size()];
        stream.out.insert(stream.out.end(), request.begin(), request.end());
        stream.waiting.push_back({slot, reply_bytes});
        return true;
    }

    Came turn(const Take& take) override {
        for (Stream& stream : streams_)
            if (!flush(stream)) return Came::end;
        Came came = Came::nothing;
        if (spin_us_ != 0) looked(spin_us_, [&] { return (came = look(take, 0)) != Came::nothing; });
        return came == Came::nothing ? look(take, kPatienceMs) : came;
    }

  private:
    static bool flush(Stream& stream) {
        for (std::size_t sent = 0; sent < stream.out.size();) {
            const auto done = send(stream.fd.get(), stream.out.data() + sent, stream.out.size() - sent, MSG_NOSIGNAL);
            if (done <= 0) return false;
            sent += static_cast<std::size_t>(done);
        }
        stream.out.clear();
        return true;
    }

    // One connection needs nobody to say which one has something.
    Came look(const Take& take, int patience_ms) {
        if (streams_.size() == 1) return receive(streams_[0], take, patience_ms == 0 ? MSG_DONTWAIT : 0);
        std::array<epoll_event, 128> events;
        const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), patience_ms);
        for (int i = 0; i < count; i++)
            if (receive(streams_[events[static_cast<std::size_t>(i)].data.u32], take, MSG_DONTWAIT) == Came::end)
                return Came::end;
        return count > 0 ? Came::replies : Came::nothing;
    }

    // Part of a reply counts as one that came: nobody is asleep whose replies come in pieces.
    static Came receive(Stream& stream, const Take& take, int flags) {
        const auto more = recv(stream.fd.get(), stream.in.data() + stream.got, stream.in.size() - stream.got, flags);
        if (more < 0 && (errno == EAGAIN || errno == EINTR)) return Came::nothing;
        if (more <= 0) return Came::end;
        stream.got += static_cast<std::size_t>(more);
        std::size_t at = 0;
        while (!stream.waiting.empty() && stream.got - at >= stream.waiting.front().bytes) {
            const Waiting first = stream.waiting.front();
            stream.waiting.pop_front();
            take(first.slot, {stream.in.data() + at, first.bytes});
            at += first.bytes;
        }
        std::memmove(stream.in.data(), stream.in.data() + at, stream.got - at);
        stream.got -= at;
        return Came::replies;
    }

    unsigned spin_us_;
    std::vector<Stream> streams_;
    ipc::OwnFd epoll_;
};

bool connect_unix(int fd, const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool connect_loopback(int fd, std::uint16_t port, int type) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    if (type == SOCK_STREAM) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

ipc::OwnFd connected_socket(const Load& load, int type) {
    const bool local = load.way == "unix";
    ipc::OwnFd fd(socket(local ? AF_UNIX : AF_INET, type | SOCK_CLOEXEC, 0));
    const timeval patience{kPatienceMs / 1000, kPatienceMs % 1000 * 1000};
    if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        !(local ? connect_unix(fd.get(), load.path) : connect_loopback(fd.get(), load.port, type))) {
        std::perror("bench_rings");
        return {};
    }
    return fd;
}

std::unique_ptr<Wire> open_streams(const Load& load) {
    auto wire = std::make_unique<Streams>(load.spin_us);
    if (!wire->connect(load)) return nullptr;
    return wire;
}

}  // namespace chainio::bench_rings
