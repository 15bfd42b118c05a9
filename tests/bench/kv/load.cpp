// Asks, verifies and times. Closed loop: so many requests are always on their way. Open loop: requests are due at
// random times, and their latency runs from then on, whether or not the server kept up. One that the server dropped or
// refused counts as one that took as long as is waited for a reply: who drops what comes while it is late would look
// quicker than who answers it. It looks without sleeping: a processor of its own is wanted.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "runtime/metrics/histogram.h"
#include "runtime/net/packet.h"
#include "tests/bench/kv/bench_kv.h"
#include "tests/bench/kv/choice.h"
#include "tests/bench/kv/wire.h"

namespace chainio::bench_kv {
namespace {

constexpr std::uint64_t kLost = 1'000'000'000;          // ns without an answer over UDP
constexpr std::string_view kRefusal = "SERVER_ERROR ";  // what an overloaded server answers, in the protocol's words
constexpr unsigned kIndexBits = 12;                     // of an id; the others tell one use of a place from the next
constexpr std::uint32_t kSpare = 1 << kIndexBits;       // places for requests of an open loop
constexpr std::uint16_t kRoundMask = static_cast<std::uint16_t>(~(kSpare - 1));

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

struct Slot {
    std::uint32_t number = 0;
    std::uint64_t due_ns = 0, sent_ns = 0;  // sent_ns 0: nothing is on its way
    std::uint16_t round = 0;
};

struct Known {
    std::vector<char> text;
    std::uint16_t sum = 0;
};

std::uint16_t sum_of(std::span<const char> text) {
    return net::sum_of({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

class Generator {
  public:
    explicit Generator(const Load& load)
        : load_(load), choice_(load.items.count, load.hot, load.seed), known_(load.hot > 0 ? load.items.count : 0) {}
    bool connect();
    void run();
    void report() const;
    bool good() const { return wrong_ == 0 && answers_ > 0; }

  private:
    void ask(std::uint32_t slot, std::uint64_t due_ns);
    void came(std::uint16_t id, std::span<const char> reply);
    void answered(std::uint32_t slot, std::span<const char> reply);
    void write_expected(std::uint32_t number, Known& out) const;
    const Known& expected(std::uint32_t number);
    void start_due();
    void give_up_lost();

    Load load_;
    Choice choice_;
    std::vector<Known> known_;  // replies to items that are asked for often, by number
    Known want_;
    std::unique_ptr<Wire> wire_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    std::uint32_t waiting_ = 0;
    std::uint64_t end_ns_ = 0, next_ns_ = 0, looked_ns_ = 0;
    std::uint64_t answers_ = 0, in_time_ = 0, wrong_ = 0, lost_ = 0, missing_ = 0, refused_ = 0;
    bool broken_ = false;
    metrics::Histogram latency_;
};

bool Generator::connect() {
    slots_.resize(load_.udp && load_.rate > 0 ? kSpare : load_.outstanding);
    wire_ = load_.udp ? open_xdp(load_) : connect_streams(load_, static_cast<std::uint32_t>(slots_.size()));
    return wire_ != nullptr;
}

std::size_t write_request(std::uint32_t number, char* out) {
    std::memcpy(out, "get ", 4);
    write_key(number, out + 4);
    std::memcpy(out + 4 + kKeyBytes, "\r\n", 2);
    return 4 + kKeyBytes + 2;
}

void Generator::ask(std::uint32_t index, std::uint64_t due_ns) {
    Slot& slot = slots_[index];
    slot.number = choice_.next();
    slot.due_ns = due_ns;
    slot.round++;
    const auto id = static_cast<std::uint16_t>(index | slot.round << kIndexBits);
    const std::array<char, kFrame> frame{static_cast<char>(id >> 8), static_cast<char>(id), 0, 0, 0, 1};
    std::array<char, 4 + kKeyBytes + 2> line;
    Request request{frame, line};
    if (load_.echo) {  // what it sends back is as long as what others answer, and verified likewise
        const Known& reply = expected(slot.number);
        request.text = reply.text;
        request.sum = net::sum_with(sum_of(frame), frame.size(), reply.sum);
    } else {
        write_request(slot.number, line.data());
        request.sum = net::sum_with(sum_of(frame), frame.size(), sum_of(line));
    }
    slot.sent_ns = now_ns();
    waiting_++;
    // A datagram that finds no room is a lost one.
    if (!wire_->send(index, request) && !wire_->loses()) broken_ = true;
}

void Generator::write_expected(std::uint32_t number, Known& out) const {
    out.text.resize(64 + kMostValue + 64);
    std::size_t length = write_head(number, load_.items.value_bytes, out.text.data());
    fill_value(number, {out.text.data() + length, load_.items.value_bytes});
    length += load_.items.value_bytes;
    std::memcpy(out.text.data() + length, kTail, kTailBytes);
    out.text.resize(length + kTailBytes);
    out.sum = load_.echo ? sum_of(out.text) : std::uint16_t{0};
}

// Made once where it is wanted again, so that verifying costs a comparison.
const Known& Generator::expected(std::uint32_t number) {
    Known& known = known_.empty() ? want_ : known_[number];
    if (known_.empty() || known.text.empty()) write_expected(number, known);
    return known;
}

// What answers a request that was given up is of no interest.
void Generator::came(std::uint16_t id, std::span<const char> reply) {
    const std::uint32_t index = id % kSpare;
    if (index >= slots_.size() || slots_[index].sent_ns == 0) return;
    if ((slots_[index].round << kIndexBits & kRoundMask) == (id & kRoundMask)) answered(index, reply);
}

void Generator::answered(std::uint32_t index, std::span<const char> reply) {
    Slot& slot = slots_[index];
    const std::uint64_t now = now_ns();
    const std::span<const char> want = expected(slot.number).text;
    if (reply.size() == want.size() && std::memcmp(reply.data(), want.data(), want.size()) == 0) {
        answers_++;
        in_time_ += now < end_ns_ ? 1 : 0;
        latency_.record(now - slot.due_ns);
    } else if (reply.size() == 5 && std::memcmp(reply.data(), "END\r\n", 5) == 0) {
        missing_++;
    } else if (reply.size() > kRefusal.size() && std::memcmp(reply.data(), kRefusal.data(), kRefusal.size()) == 0) {
        refused_++;
        latency_.record(std::max(now - slot.due_ns, kLost));
    } else {
        wrong_++;
    }
    slot.sent_ns = 0;
    waiting_--;
    if (load_.rate > 0)
        free_.push_back(index);
    else if (now < end_ns_)
        ask(index, now);
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
    for (std::uint32_t i = 0; wire_->loses() && i < slots_.size(); i++) {
        if (slots_[i].sent_ns == 0 || now - slots_[i].sent_ns < kLost) continue;
        lost_++;
        latency_.record(now - slots_[i].due_ns);
        waiting_--;
        slots_[i].sent_ns = 0;
        if (load_.rate > 0)
            free_.push_back(i);
        else if (now < end_ns_)
            ask(i, now);
    }
}

void Generator::run() {
    next_ns_ = looked_ns_ = now_ns();
    end_ns_ = next_ns_ + static_cast<std::uint64_t>(load_.seconds * 1e9);
    for (std::uint32_t i = 0; i < slots_.size(); i++) {
        if (load_.rate > 0)
            free_.push_back(i);
        else
            ask(i, now_ns());
    }
    const Wire::Take take = [this](std::uint16_t id, std::span<const char> reply) { came(id, reply); };
    while (!broken_) {
        if (load_.rate > 0) start_due();
        if (!wire_->turn(take)) broken_ = true;
        give_up_lost();
        if (now_ns() >= end_ns_ && waiting_ == 0) break;
    }
    if (broken_) wrong_++;
}

void Generator::report() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    const nlohmann::json json = {{"answers", answers_},
                                 {"rate", static_cast<double>(std::max<std::uint64_t>(in_time_, 1)) / load_.seconds},
                                 {"wrong", wrong_},
                                 {"lost", lost_},
                                 {"missing", missing_},
                                 {"refused", refused_},
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
