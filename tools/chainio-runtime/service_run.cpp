// The loop of the daemon, and its end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <utility>

#include "runtime/net/clock.h"
#include "tools/chainio-runtime/pieces.h"
#include "tools/chainio-runtime/say.h"
#include "tools/chainio-runtime/service.h"

namespace chainio::runtime_tool {
namespace {

constexpr int kDrainMs = 5000;                // how long peers may take to read their last answers
constexpr int kGivenUpMs = 1000;              // how long reads may take that nobody waits for
constexpr unsigned kMostRounds = 64;          // until the kernel is asked again
constexpr std::uint64_t kMostNs = 1'000'000;  // or for so long: clients may have sent thousands of requests ahead

}  // namespace

unsigned Service::in_flight() const { return now_->engine->in_flight() + (before_ ? before_->engine->in_flight() : 0); }

// Of chains that wait for a disk, and of such as were given up.
unsigned Service::reads() const {
    return now_->engine->reads_under_way() + (before_ ? before_->engine->reads_under_way() : 0);
}

// Of these, call requests: what services have begun has an end of its own.
std::size_t Service::calls_in_flight() const {
    const auto of = [](const Edition& edition) { return edition.calls.size() - edition.free.size(); };
    return of(*now_) + (before_ ? of(*before_) : 0);
}

// Chains that the device need not answer, and requests whose calls had their answers at once, are to go on once others
// have had their turn.
bool Service::has_ready() const {
    return now_->engine->has_ready() || (before_ && before_->engine->has_ready()) ||
           (server_ != nullptr && server_->has_ready());
}

bool Service::must_not_wait() const {
    return must_be_waited_for(*now_->engine) || (before_ && must_be_waited_for(*before_->engine)) || has_ready();
}

int Service::next_timeout_ms() const {
    const int server = server_ != nullptr ? server_->next_timeout_ms() : -1;
    const int watch = watch_.empty() && before_ == nullptr && preparing_ == nullptr ? -1 : kLookMs;
    int next = manager_.next_ms(std::chrono::steady_clock::now());
    for (const int each : {server, watch}) next = each < 0 || next < 0 ? std::max(each, next) : std::min(each, next);
    return next;
}

// Once a second, and at the end: what was shed since the last time, and what the kernel had no room for.
void Service::tell_overload(bool at_end) {
    const auto now = std::chrono::steady_clock::now();
    if (server_ == nullptr || (!at_end && now - told_ < std::chrono::seconds(1))) return;
    told_ = now;
    const auto more = [](std::uint64_t& before, std::uint64_t count) {
        return count - std::min(std::exchange(before, count), count);
    };
    const unsigned most = options_.server.connections;
    server_->look_for_dropped();
    const auto& services = now_->loaded->module().services;
    for (std::uint32_t i = 0; i < services.size(); i++) {
        const service::ServiceCounters &tcp = server_->counters(i, true), &udp = server_->counters(i, false);
        const service::ServiceCounters& ring = server_->ring_counters(i);
        const std::string& name = services[i].name;
        Told& before = overload_[name];
        const std::uint64_t shed = tcp.shed + udp.shed + ring.shed;
        if (const std::uint64_t count = more(before.shed, shed))
            say(fmt::format("overload: {} requests of service '{}' were shed, {} in all\n", count, name, shed));
        if (const std::uint64_t count = more(before.refused, tcp.refused))
            say(
                fmt::format("overload: {} connections of service '{}' were refused, as there were {} already "
                            "(--connections), {} in all\n",
                            count, name, most, tcp.refused));
        if (const std::uint64_t count = more(before.displaced, tcp.displaced))
            say(
                fmt::format("overload: {} idle connections of service '{}' were closed for more urgent ones, as there "
                            "were {} already (--connections), {} in all\n",
                            count, name, most, tcp.displaced));
        if (const std::uint64_t count = more(before.dropped, udp.dropped))
            say(fmt::format(
                "overload: {} datagrams of service '{}' were dropped by the kernel, as its socket was full, "
                "{} in all\n",
                count, name, udp.dropped));
    }
    for (std::size_t i = 0; i < server_->interface_count(); i++) {
        const std::string& name = server_->interface_name(i);
        const std::uint64_t dropped = server_->interface_dropped(i);
        if (const std::uint64_t count = more(dropped_[name], dropped))
            say(fmt::format(
                "overload: {} datagrams that came by {} were dropped by the kernel, as its rings were full, "
                "{} in all\n",
                count, name, dropped));
    }
}

// Once a trial has ended: which engine --engine=auto goes on with, and why.
void Service::tell_choice() {
    const bool open = now_->engine->choosing();
    if (!open && choosing_ == now_->number) say(now_->engine->describe() + "\n");
    choosing_ = open ? now_->number : 0;
}

void Service::tell_news() { say(news()); }

// What has come with the last turn, and what follows from it without the kernel: requests start chains, and chains that
// end let requests go on. True: there is more to be done.
std::expected<bool, std::string> Service::serve_what_came() {
    Pieces pieces(!options_.server.interfaces.empty());
    bool by_disk = false;  // some of it is, so that a piece is worth a call
    std::uint64_t until_ns = net::now_ns() + kMostNs;
    for (unsigned round = 0; round < kMostRounds; round++) {
        if (server_ != nullptr) server_->step(until_ns);
        by_disk = by_disk || (server_ != nullptr && reads() != 0);
        const unsigned piece = by_disk ? pieces.size(in_flight()) : UINT_MAX;
        auto collected = collect(piece);
        if (!collected) return std::unexpected(collected.error());
        if (has_ready()) return true;
        // Another chain that a request has started begins to read with the next collect().
        if (*collected == 0 && (server_ == nullptr || !server_->has_work())) return false;
        const bool late = net::now_ns() >= until_ns;
        if (late && !by_disk) return true;
        if (!pieces.is_full(*collected, piece) && !late) continue;
        if (auto handed = hand_over(); !handed) return std::unexpected(handed.error());
        until_ns = net::now_ns() + kMostNs;  // what others have sent has come in with that
    }
    return true;
}

// Replies leave and reads begin that were made so far, and what has come meanwhile comes in; waits for nothing.
std::expected<void, std::string> Service::hand_over() {
    server_->flush(false);
    const int turned = ring_->turn(0);
    if (turned >= 0) return {};
    return std::unexpected(std::string("io_uring_enter: ") + std::strerror(-turned));
}

std::expected<void, std::string> Service::run() {
    while (stops_ == 0) {
        for (auto& [key, client] : clients_) take_lines(key, *client);
        auto ready = serve_what_came();
        if (!ready) return std::unexpected(ready.error());
        if (inside_ != nullptr && inside_->loop().ended())
            return std::unexpected("services inside the kernel: " + inside_->loop().failure());
        tell_choice();
        end_edition();
        reload_if_due();
        tell_overload(false);
        tell_news();
        manager_.go_on(std::chrono::steady_clock::now());
        drop_finished();
        for (const auto& [key, client] : clients_) *ready = *ready || may_take_line(*client);
        if (auto waited = wait(*ready || must_not_wait() ? 0 : next_timeout_ms()); !waited) return waited;
    }
    manager_.tell("STOPPING=1");
    give_up_reloads();
    if (inside_ != nullptr) inside_->loop().drain();
    if (auto drained = drain_server(); !drained) return drained;
    if (auto drained = drain_inside(); !drained) return drained;
    frames_return_ = false;
    tell_overload(true);
    tell_news();
    // What was taken on is answered; lines that were not started are not.
    while (calls_in_flight() > 0 && stops_ < 2) {
        if (auto collected = collect(); !collected) return std::unexpected(collected.error());
        if (calls_in_flight() == 0) break;
        if (auto waited = wait(must_not_wait() ? 0 : -1); !waited) return waited;
    }
    if (auto drained = drain_reads(); !drained) return drained;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDrainMs);
    while (stops_ < 2 && std::chrono::steady_clock::now() < until) {
        bool left = false;
        for (auto it = clients_.begin(); it != clients_.end();) {
            if (!it->second->write_some()) {
                it = clients_.erase(it);
                continue;
            }
            left = left || it->second->wants_write();
            ++it;
        }
        if (!left) break;
        if (auto waited = wait(100); !waited) return waited;
    }
    return {};
}

// The kernel may write into an engine's memory as long as it has reads, so that nobody can end an engine before, and a
// thread that prepares a reload has memory to take for seconds. Neither it nor a disk that does not answer is to keep
// the process, which the kernel takes down with all of that.
void Service::leave_if_held() {
    const unsigned held = in_flight(), left = reads();
    const bool ended = inside_ == nullptr || inside_->loop().end_within(kGivenUpMs);
    const bool prepares = preparing_ != nullptr && !preparing_->is_done();
    if (held == 0 && left == 0 && ended && !prepares) return;
    const std::string what = held != 0   ? fmt::format("{} chains are given up, whose reads have not ended", held)
                             : left != 0 ? fmt::format("{} reads of chains that were given up have not ended", left)
                             : !ended    ? "services inside the kernel are given up, whose reads have not ended"
                                         : "a reload is given up, whose edition is not prepared";
    const std::uint64_t answers = answered();
    server_.reset();
    control_.stop();
    say(fmt::format("stopped after {} answers; {}\n", answers, what));
    _exit(kExitOk);
}

void Service::end() {
    // Who was given up may have frames; that is no leak.
    const bool drained = (server_ == nullptr || server_->drained()) && (inside_ == nullptr || inside_->loop().ended());
    inside_.reset();
    server_.reset();
    for (const Edition* edition : {before_.get(), now_.get()})
        if (drained && edition != nullptr) tell_leaks(*edition);
}

// What the services' clients have sent is answered, and they are told that there is no more.
std::expected<void, std::string> Service::drain_server() {
    if (server_ == nullptr) return {};
    rings_.stop();  // who comes now is not to wait for somebody who takes nobody on
    server_->drain();
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDrainMs);
    while (!server_->drained() && stops_ < 2 && std::chrono::steady_clock::now() < until) {
        const auto ready = serve_what_came();
        if (!ready) return std::unexpected(ready.error());
        if (server_->drained()) break;
        if (auto waited = wait(*ready || must_not_wait() ? 0 : server_->next_timeout_ms()); !waited) return waited;
    }
    if (!server_->drained() && stops_ < 2)
        say(fmt::format("given up, as {} seconds are over: {}\n", kDrainMs / 1000, server_->undrained()));
    return {};
}

// Reads of chains that were given up, as of a client who is gone: with most disks they end in a moment.
std::expected<void, std::string> Service::drain_reads() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kGivenUpMs);
    while (in_flight() == 0 && reads() != 0 && stops_ < 2 && std::chrono::steady_clock::now() < until) {
        if (auto collected = collect(); !collected) return std::unexpected(collected.error());
        if (reads() == 0) break;
        if (auto waited = wait(kGivenUpMs / 10); !waited) return waited;
    }
    return {};
}

std::expected<void, std::string> Service::drain_inside() {
    if (inside_ == nullptr) return {};
    engine::KernelServer& loop = inside_->loop();
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDrainMs);
    while (!loop.ended() && stops_ < 2 && std::chrono::steady_clock::now() < until) {
        if (auto waited = wait(kDrainMs / 50); !waited) return waited;
    }
    if (loop.ended() && !loop.failure().empty())
        return std::unexpected("services inside the kernel: " + loop.failure());
    return {};
}

}  // namespace chainio::runtime_tool
