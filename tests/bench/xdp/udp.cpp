// The same over sockets, in batches: the peer that a person would write. It looks and sleeps as the
// AF_XDP ends do.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/bench/xdp/bench_xdp.h"

namespace chainio::bench {
namespace {

constexpr unsigned kBatch = 64;

sockaddr_in socket_address(const std::string& text) {
    sockaddr_in end{};
    end.sin_family = AF_INET;
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return end;
    inet_pton(AF_INET, text.substr(0, colon).c_str(), &end.sin_addr);
    end.sin_port = htons(static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1))));
    return end;
}

struct Batch {
    std::array<std::array<std::uint8_t, 2048>, kBatch> bytes{};
    std::array<sockaddr_in, kBatch> ends{};
    std::array<iovec, kBatch> parts{};
    std::array<mmsghdr, kBatch> messages{};
    Batch() {
        for (unsigned i = 0; i < kBatch; i++) {
            messages[i].msg_hdr = {};
            messages[i].msg_hdr.msg_name = &ends[i];
            messages[i].msg_hdr.msg_iov = &parts[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
    }
    int receive(int fd) {
        for (unsigned i = 0; i < kBatch; i++) {
            parts[i] = {bytes[i].data(), bytes[i].size()};
            messages[i].msg_hdr.msg_namelen = sizeof(sockaddr_in);
        }
        return recvmmsg(fd, messages.data(), kBatch, MSG_DONTWAIT, nullptr);
    }
    void send(int fd, int count) {
        for (int sent = 0; sent < count;) {
            const int done = sendmmsg(fd, messages.data() + sent, static_cast<unsigned>(count - sent), 0);
            if (done <= 0) return;
            sent += done;
        }
    }
};

int socket_at(const std::string& own) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const sockaddr_in at = socket_address(own);
    const int room = 4 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return fd;
    fmt::print(stderr, "bench_xdp: {}: {}\n", own, std::strerror(errno));
    close(fd);
    return -1;
}

void wait(int fd) {
    pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
    poll(&polled, 1, 20);
}

}  // namespace

int serve_udp(const Options& options) {
    const int fd = socket_at(options.own);
    if (fd < 0) return 3;
    fmt::print("sockets on {}\n", options.own);
    std::fflush(stdout);
    Batch batch;
    std::uint64_t answered = 0;
    Patience patience;
    while (!stopped()) {
        const int count = batch.receive(fd);
        if (count <= 0) {
            if (patience.over()) wait(fd);
            continue;
        }
        patience.worked();
        for (int i = 0; i < count; i++)
            batch.parts[static_cast<unsigned>(i)].iov_len = batch.messages[static_cast<unsigned>(i)].msg_len;
        batch.send(fd, count);
        answered += static_cast<std::uint64_t>(count);
    }
    close(fd);
    fmt::print("{{\"answered\": {}}}\n", answered);
    return 0;
}

int ping_udp(const Options& options) {
    const int fd = socket_at(options.own);
    if (fd < 0) return 3;
    const sockaddr_in peer = socket_address(options.peer);
    std::vector<double> asked(options.outstanding);
    std::vector<std::uint8_t> first(options.bytes);
    const double start = now();
    for (unsigned i = 0; i < options.outstanding; i++) {
        write_payload(first.data(), options.bytes, i);
        asked[i] = now();
        sendto(fd, first.data(), first.size(), 0, reinterpret_cast<const sockaddr*>(&peer), sizeof peer);
    }
    std::vector<float> times;
    times.reserve(std::size_t{1} << 22);
    Batch batch;
    std::uint64_t answers = 0, wrong = 0;
    double at = start, last = start;
    Patience patience;
    while ((at = now()) - start < options.seconds && at - last < 2 && !stopped()) {
        const int count = batch.receive(fd);
        for (int i = 0; i < count; i++) {
            const auto n = static_cast<unsigned>(i);
            std::uint8_t* payload = batch.bytes[n].data();
            if (!payload_is_right(payload, batch.messages[n].msg_len, options.bytes)) {
                wrong++;
                continue;
            }
            std::uint64_t serial = 0;
            std::memcpy(&serial, payload + 1, sizeof serial);
            double& since = asked[serial % options.outstanding];
            if (times.size() < times.capacity()) times.push_back(static_cast<float>(at - since));
            write_payload(payload, options.bytes, serial + options.outstanding);
            since = at;
            answers++;
            last = at;
            batch.parts[n].iov_len = options.bytes;
        }
        if (count > 0) {
            patience.worked();
            batch.send(fd, count);
        } else if (patience.over()) {
            wait(fd);
        }
    }
    close(fd);
    return print_pings(answers, wrong, at - start, times);
}

}  // namespace chainio::bench
