// Keeps so many requests on their way for a while, compares every byte of each reply, and says what it took.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "runtime/metrics/histogram.h"
#include "tests/bench/kv/choice.h"
#include "tests/bench/rings/protocol.h"
#include "tests/bench/rings/usage.h"
#include "tests/bench/rings/wire.h"

namespace chainio::bench_rings {
namespace {

constexpr unsigned kSlotBits = 10;  // of a tag; the others tell one use of a place from the next
constexpr std::uint32_t kSlots = 1 << kSlotBits;
constexpr std::size_t kChoices = 1 << 16;  // are drawn before the clock runs

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

struct Slot {
    Question question;
    std::uint64_t asked_ns = 0;
    bool waits = false;
};

struct Counts {
    std::uint64_t answers = 0, in_time = 0, wrong = 0, lost = 0;
    metrics::Histogram latency;
    void add(const Counts& other) {
        answers += other.answers;
        in_time += other.in_time;
        wrong += other.wrong;
        lost += other.lost;
        latency.merge(other.latency);
    }
};

class Generator {
  public:
    explicit Generator(const Load& load)
        : load_(load), protocol_(protocol_of(load)), slots_(load.outstanding), numbers_(kChoices) {
        bench_kv::Choice choice(load.items.count, load.hot, load.seed);
        for (std::uint32_t& number : numbers_) number = choice.next();
    }
    bool open() {
        if (!protocol_)
            std::fprintf(stderr, "bench_rings: '%s' is not asked by '%s'\n", load_.asks.c_str(), load_.way.c_str());
        else
            wire_ = open_wire(load_);
        return wire_ != nullptr;
    }
    void run();
    const Counts& counts() const { return counts_; }

  private:
    void ask(std::uint32_t slot, std::uint64_t now);
    void came(std::uint32_t slot, std::span<const char> reply);
    void give_up();

    Load load_;
    std::unique_ptr<Protocol> protocol_;
    std::unique_ptr<Wire> wire_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> numbers_;
    std::size_t next_ = 0;
    std::uint32_t waiting_ = 0;
    std::uint64_t end_ns_ = 0;
    bool broken_ = false;
    Counts counts_;
};

void Generator::ask(std::uint32_t index, std::uint64_t now) {
    Slot& slot = slots_[index];
    const auto round = static_cast<std::uint16_t>((slot.question.tag >> kSlotBits) + 1);
    slot.question = {static_cast<std::uint16_t>(round << kSlotBits | index), numbers_[next_++ % kChoices]};
    slot.asked_ns = now;
    slot.waits = true;
    waiting_++;
    std::array<char, kMostRequest> request;
    const std::size_t length = protocol_->write(slot.question, request.data());
    if (!wire_->ask(index, {request.data(), length}, protocol_->reply_bytes(slot.question))) broken_ = true;
}

// What answers a request that was given up is of no interest.
void Generator::came(std::uint32_t index, std::span<const char> reply) {
    if (index == kUnknown) {
        const auto tag = protocol_->tag_of(reply);
        index = tag ? *tag % kSlots : kUnknown;
        if (index >= slots_.size() || !slots_[index].waits || slots_[index].question.tag != *tag) return;
    }
    Slot& slot = slots_[index];
    const std::uint64_t now = now_ns();
    if (protocol_->is_reply(slot.question, reply)) {
        counts_.answers++;
        counts_.in_time += now < end_ns_ ? 1 : 0;
        counts_.latency.record(now - slot.asked_ns);
    } else {
        counts_.wrong++;
    }
    slot.waits = false;
    waiting_--;
    if (now < end_ns_) ask(index, now);
}

// Of datagrams. On another wire what does not come has been answered wrongly, as by a shorter reply.
void Generator::give_up() {
    if (!wire_->loses()) {
        std::fprintf(stderr, "bench_rings: %u requests have no whole reply after %d ms\n", waiting_, kPatienceMs);
        broken_ = true;
        return;
    }
    const std::uint64_t now = now_ns();
    for (std::uint32_t index = 0; index < slots_.size(); index++) {
        if (!slots_[index].waits) continue;
        counts_.lost++;
        counts_.latency.record(now - slots_[index].asked_ns);
        slots_[index].waits = false;
        waiting_--;
        if (now < end_ns_) ask(index, now);
    }
}

void Generator::run() {
    const Wire::Take take = [this](std::uint32_t slot, std::span<const char> reply) { came(slot, reply); };
    end_ns_ = now_ns() + static_cast<std::uint64_t>(load_.seconds * 1e9);
    for (std::uint32_t index = 0; index < slots_.size(); index++) ask(index, now_ns());
    while (!broken_ && waiting_ != 0) {
        const Came how = wire_->turn(take);
        if (how == Came::nothing) give_up();
        if (how == Came::end) broken_ = true;
    }
    if (broken_) counts_.wrong++;
}

// One after the other is opened, and then all run.
bool run_all(const Load& load, Counts& all, Used& own, Used& server) {
    std::vector<Generator> generators;
    for (unsigned i = 0; i < load.threads; i++) {
        Load share = load;
        share.outstanding = load.outstanding / load.threads;
        share.seed = load.seed * load.threads + i;
        generators.emplace_back(share);
    }
    if (load.threads == 1 && !generators[0].open()) return false;
    const Used own_before = own_use();
    const Usage server_before = usage_of(load.server);
    if (load.threads == 1) {
        generators[0].run();
    } else {
        std::vector<std::jthread> threads;
        for (Generator& each : generators)
            threads.emplace_back([&each] {
                if (each.open()) each.run();
            });
    }
    server = usage_of(load.server).since(server_before);
    const Used now = own_use();
    own = {now.busy_ns - own_before.busy_ns, now.switches - own_before.switches};
    for (const Generator& each : generators) all.add(each.counts());
    return true;
}

}  // namespace

std::unique_ptr<Wire> open_wire(const Load& load) {
    if (load.way == "ring") return open_ring(load);
    if (load.way == "udp") return open_datagrams(load);
    if (load.way == "pread") return open_preads(load);
    if (load.way == "uring") return open_uring(load);
    return open_streams(load);
}

int run_load(const Load& load) {
    Counts counts;
    Used own, server;
    if (!run_all(load, counts, own, server)) return 3;
    const auto each = [&](std::uint64_t sum) {
        return static_cast<double>(sum) / static_cast<double>(std::max<std::uint64_t>(counts.answers, 1));
    };
    const nlohmann::json json = {{"answers", counts.answers},
                                 {"rate", static_cast<double>(counts.in_time) / load.seconds},
                                 {"wrong", counts.wrong},
                                 {"lost", counts.lost},
                                 {"p50_us", static_cast<double>(counts.latency.percentile(50)) / 1e3},
                                 {"p99_us", static_cast<double>(counts.latency.percentile(99)) / 1e3},
                                 {"client_us", each(own.busy_ns) / 1e3},
                                 {"server_us", each(server.busy_ns) / 1e3},
                                 {"both_us", each(own.busy_ns + server.busy_ns) / 1e3},
                                 {"switches", each(own.switches + server.switches)}};
    std::printf("%s\n", json.dump().c_str());
    return counts.wrong == 0 && counts.answers > 0 ? 0 : 1;
}

}  // namespace chainio::bench_rings
