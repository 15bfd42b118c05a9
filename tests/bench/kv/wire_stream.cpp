// A connection for each request on its way.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "tests/bench/kv/wire.h"

namespace chainio::bench_kv {
namespace {

struct Stream {
    int fd = -1;
    std::uint16_t id = 0;
    std::size_t got = 0;
    std::array<char, kFrame + 64 + kMostValue + 64> reply;
};

class Streams final : public Wire {
  public:
    Streams() = default;
    ~Streams() override {
        for (const Stream& each : streams_)
            if (each.fd >= 0) close(each.fd);
        if (epoll_ >= 0) close(epoll_);
    }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    bool connect(const Load& load, std::uint32_t slots) {
        streams_.resize(slots);
        epoll_ = epoll_create1(EPOLL_CLOEXEC);
        for (std::uint32_t i = 0; i < slots; i++) {
            streams_[i].fd = open_one(load);
            if (streams_[i].fd < 0) return false;
            epoll_event event{.events = EPOLLIN, .data = {.u32 = i}};
            epoll_ctl(epoll_, EPOLL_CTL_ADD, streams_[i].fd, &event);
        }
        return true;
    }

    // The one small request of a connection always has room.
    bool send(std::uint32_t slot, const Request& request) override {
        Stream& stream = streams_[slot];
        stream.id = id_of(request.frame);
        stream.got = 0;
        const auto sent = ::send(stream.fd, request.text.data(), request.text.size(), MSG_NOSIGNAL);
        return sent == static_cast<ssize_t>(request.text.size());
    }

    bool turn(const Take& take) override {
        std::array<epoll_event, 128> events;
        const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
        for (int i = 0; i < count; i++)
            if (!receive(streams_[events[static_cast<std::size_t>(i)].data.u32], take)) return false;
        return true;
    }

    bool loses() const override { return false; }

  private:
    static int open_one(const Load& load) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(load.port);
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int on = 1;
        if (fd < 0 || inet_pton(AF_INET, load.address.c_str(), &address.sin_addr) != 1 ||
            ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            std::perror("bench_kv load");
            if (fd >= 0) close(fd);
            return -1;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return fd;
    }

    static bool receive(Stream& stream, const Take& take) {
        const ssize_t got =
            recv(stream.fd, stream.reply.data() + stream.got, stream.reply.size() - stream.got, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        if (got <= 0) return false;
        stream.got += static_cast<std::size_t>(got);
        const char* end = stream.reply.data() + stream.got;
        const bool whole = stream.got >= 5 && std::memcmp(end - 5, "END\r\n", 5) == 0;
        if (whole || stream.got == stream.reply.size()) take(stream.id, {stream.reply.data(), stream.got});
        return true;
    }

    std::vector<Stream> streams_;
    int epoll_ = -1;
};

}  // namespace

std::unique_ptr<Wire> connect_streams(const Load& load, std::uint32_t slots) {
    auto wire = std::make_unique<Streams>();
    if (!wire->connect(load, slots)) return nullptr;
    return wire;
}

}  // namespace chainio::bench_kv
