// Asks, verifies and times. Closed loop: so many requests are always on their way. Open loop: requests are due at
// random times, and their latency runs from then on, whether or not the server kept up. It looks without sleeping: a
// processor of its own is wanted.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "runtime/metrics/histogram.h"
#include "tests/bench/kv/bench_kv.h"

namespace chainio::bench_kv {
namespace {

constexpr std::uint64_t kLost = 1'000'000'000;  // ns without an answer over UDP
constexpr std::uint32_t kSpare = 1024;          // places for requests of an open loop

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// Which item comes next: all alike, or a few far more often than the others (Zipf, exponent 0.99).
class Choice {
  public:
    explicit Choice(const Load& load) : count_(load.items.count), random_(load.seed) {
        double sum = 0;
        for (std::uint32_t i = 0; i < load.hot; i++) shares_.push_back(sum += 1 / std::pow(i + 1, 0.99));
    }
    std::uint32_t next() {
        if (shares_.empty()) return static_cast<std::uint32_t>(random_() % count_);
        const double at = std::uniform_real_distribution<double>(0, shares_.back())(random_);
        const auto rank = std::lower_bound(shares_.begin(), shares_.end(), at) - shares_.begin();
        return static_cast<std::uint32_t>(mixed(static_cast<std::uint64_t>(rank)) % count_);
    }
    std::uint64_t gap_ns(double rate) {
        return static_cast<std::uint64_t>(std::exponential_distribution<double>(rate)(random_) * 1e9);
    }

  private:
    std::uint32_t count_;
    std::mt19937_64 random_;
    std::vector<double> shares_;
};

struct Slot {
    int fd = -1;
    std::uint32_t number = 0;
    std::uint64_t due_ns = 0, sent_ns = 0;  // sent_ns 0: nothing is on its way
    std::uint16_t round = 0;
    std::size_t got = 0;
    std::array<char, kFrame + 64 + kMostValue + 64> reply;
};

class Generator {
  public:
    explicit Generator(const Load& load) : load_(load), choice_(load) {}
    bool connect();
    void run();
    void report() const;
    bool good() const { return wrong_ == 0 && answers_ > 0; }

  private:
    int open_socket() const;
    void ask(std::uint32_t slot, std::uint64_t due_ns);
    void receive_datagrams();
    void receive_stream(std::uint32_t slot);
    void answered(std::uint32_t slot, std::span<const char> reply);
    void look();
    void start_due();
    void give_up_lost();

    Load load_;
    Choice choice_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    int fd_ = -1, epoll_ = -1;  // of UDP; of TCP
    std::uint64_t begin_ns_ = 0, end_ns_ = 0, next_ns_ = 0, looked_ns_ = 0;
    std::uint64_t answers_ = 0, wrong_ = 0, lost_ = 0, missing_ = 0;
    bool broken_ = false;
    metrics::Histogram latency_;
};

int Generator::open_socket() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(load_.port);
    const int fd = socket(AF_INET, (load_.udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    const int on = 1, room = 4 << 20;
    if (fd < 0 || inet_pton(AF_INET, load_.address.c_str(), &address.sin_addr) != 1 ||
        ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        std::perror("bench_kv load");
        return -1;
    }
    if (load_.udp) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (!load_.udp) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

bool Generator::connect() {
    const std::uint32_t places = load_.udp && load_.rate > 0 ? kSpare : load_.outstanding;
    slots_.resize(places);
    if (load_.udp) return (fd_ = open_socket()) >= 0;
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    for (std::uint32_t i = 0; i < places; i++) {
        slots_[i].fd = open_socket();
        if (slots_[i].fd < 0) return false;
        epoll_event event{.events = EPOLLIN, .data = {.u32 = i}};
        epoll_ctl(epoll_, EPOLL_CTL_ADD, slots_[i].fd, &event);
    }
    return true;
}

void Generator::ask(std::uint32_t index, std::uint64_t due_ns) {
    Slot& slot = slots_[index];
    slot.number = choice_.next();
    slot.due_ns = due_ns;
    slot.got = 0;
    slot.round++;
    std::array<char, kFrame + 4 + kKeyBytes + 2> packet{};
    const std::uint16_t id = static_cast<std::uint16_t>(index | slot.round << 10);  // kSpare is 2^10
    packet[0] = static_cast<char>(id >> 8);
    packet[1] = static_cast<char>(id);
    packet[5] = 1;
    std::memcpy(packet.data() + kFrame, "get ", 4);
    write_key(slot.number, packet.data() + kFrame + 4);
    std::memcpy(packet.data() + kFrame + 4 + kKeyBytes, "\r\n", 2);
    const std::size_t skip = load_.udp ? 0 : kFrame;
    slot.sent_ns = now_ns();
    // The one small request of a connection always has room; a datagram that has none is a lost one.
    if (send(load_.udp ? fd_ : slot.fd, packet.data() + skip, packet.size() - skip, MSG_NOSIGNAL) < 0 && !load_.udp)
        broken_ = true;
}

void Generator::answered(std::uint32_t index, std::span<const char> reply) {
    Slot& slot = slots_[index];
    const std::uint64_t now = now_ns();
    std::array<char, 64 + kMostValue + 64> want;
    std::size_t length = write_head(slot.number, load_.items.value_bytes, want.data());
    fill_value(slot.number, {want.data() + length, load_.items.value_bytes});
    length += load_.items.value_bytes;
    std::memcpy(want.data() + length, kTail, kTailBytes);
    length += kTailBytes;
    if (reply.size() == length && std::memcmp(reply.data(), want.data(), length) == 0) {
        answers_++;
        latency_.record(now - slot.due_ns);
    } else if (reply.size() == 5 && std::memcmp(reply.data(), "END\r\n", 5) == 0) {
        missing_++;
    } else {
        wrong_++;
    }
    slot.sent_ns = 0;
    if (load_.rate > 0)
        free_.push_back(index);
    else if (now < end_ns_)
        ask(index, now);
}

void Generator::receive_datagrams() {
    std::array<char, 2048> packet;
    for (int i = 0; i < 64; i++) {
        const ssize_t got = recv(fd_, packet.data(), packet.size(), MSG_DONTWAIT);
        if (got < static_cast<ssize_t>(kFrame)) return;
        const unsigned id = static_cast<unsigned char>(packet[0]) << 8 | static_cast<unsigned char>(packet[1]);
        const std::uint32_t index = id % kSpare;
        if (index >= slots_.size() || slots_[index].sent_ns == 0 ||
            (slots_[index].round << 10 & 0xfc00) != (id & 0xfc00))
            continue;  // of a request that was given up
        answered(index, {packet.data() + kFrame, static_cast<std::size_t>(got) - kFrame});
    }
}

void Generator::receive_stream(std::uint32_t index) {
    Slot& slot = slots_[index];
    const ssize_t got = recv(slot.fd, slot.reply.data() + slot.got, slot.reply.size() - slot.got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        broken_ = true;
        return;
    }
    slot.got += static_cast<std::size_t>(got);
    const char* end = slot.reply.data() + slot.got;
    const bool whole = slot.got >= 5 && std::memcmp(end - 5, "END\r\n", 5) == 0;
    if (whole || slot.got == slot.reply.size()) answered(index, {slot.reply.data(), slot.got});
}

void Generator::look() {
    if (load_.udp) return receive_datagrams();
    std::array<epoll_event, 128> events;
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; i++) receive_stream(events[static_cast<std::size_t>(i)].data.u32);
}

void Generator::start_due() {
    const std::uint64_t now = now_ns();
    while (next_ns_ <= now && next_ns_ < end_ns_ && !free_.empty()) {
        const std::uint32_t index = free_.back();
        free_.pop_back();
        ask(index, next_ns_);
        next_ns_ += choice_.gap_ns(load_.rate);
    }
}

void Generator::give_up_lost() {
    const std::uint64_t now = now_ns();
    if (now - looked_ns_ < kLost / 10) return;
    looked_ns_ = now;
    for (std::uint32_t i = 0; load_.udp && i < slots_.size(); i++) {
        if (slots_[i].sent_ns == 0 || now - slots_[i].sent_ns < kLost) continue;
        lost_++;
        slots_[i].sent_ns = 0;
        if (load_.rate > 0)
            free_.push_back(i);
        else if (now < end_ns_)
            ask(i, now);
    }
}

void Generator::run() {
    begin_ns_ = next_ns_ = looked_ns_ = now_ns();
    end_ns_ = begin_ns_ + static_cast<std::uint64_t>(load_.seconds * 1e9);
    for (std::uint32_t i = 0; i < slots_.size(); i++) {
        if (load_.rate > 0)
            free_.push_back(i);
        else
            ask(i, now_ns());
    }
    while (!broken_) {
        if (load_.rate > 0) start_due();
        look();
        give_up_lost();
        const bool waiting = std::ranges::any_of(slots_, [](const Slot& slot) { return slot.sent_ns != 0; });
        if (now_ns() >= end_ns_ && !waiting) break;
    }
    end_ns_ = std::max(end_ns_, now_ns());
    if (broken_) wrong_++;
}

void Generator::report() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    const nlohmann::json json = {{"answers", answers_},
                                 {"seconds", static_cast<double>(end_ns_ - begin_ns_) / 1e9},
                                 {"wrong", wrong_},
                                 {"lost", lost_},
                                 {"missing", missing_},
                                 {"p50_us", static_cast<double>(latency_.percentile(50)) / 1e3},
                                 {"p99_us", static_cast<double>(latency_.percentile(99)) / 1e3},
                                 {"cpu_s", seconds(usage.ru_utime) + seconds(usage.ru_stime)}};
    std::printf("%s\n", json.dump().c_str());
}

}  // namespace

int run_load(const Load& load) {
    Generator generator(load);
    if (!generator.connect()) return 3;
    generator.run();
    generator.report();
    return generator.good() ? 0 : 1;
}

}  // namespace chainio::bench_kv
