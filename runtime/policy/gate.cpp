#include "runtime/policy/gate.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace chainio::policy {

bool Gate::admit() {
    if (state_ == State::off) return false;
    if (state_ == State::probing && requests_ >= options_.probe_requests) return false;
    requests_++;
    return true;
}

void Gate::take_back() {
    if (requests_ > 0) requests_--;
    if (requests_ == 0) probe_since_ns_ = 0;
}

void Gate::too_late(bool told) {
    if (told && in_memory_ == 0) return;  // it was counted before the gate's state changed
    late_++;
    const bool counts = late_ % options_.late_in_memory == 0;
    in_memory_ = in_memory_ - told + counts;
    if (late_ % options_.late_requests != 0) take_back();
}

void Gate::outcome(bool good) {
    history_[1] = history_[1] << 1 | history_[0] >> 63;
    history_[0] = history_[0] << 1 | (good ? 1u : 0u);
    count_ = std::min({count_ + 1, options_.window, 128u});
    resolved_++;
}

double Gate::rate() const {
    if (count_ == 0) return 0;
    const auto low_bits = [](std::uint64_t word, unsigned bits) {
        return bits >= 64 ? word : word & ((std::uint64_t{1} << bits) - 1);
    };
    const int good = std::popcount(low_bits(history_[0], count_)) +
                     (count_ > 64 ? std::popcount(low_bits(history_[1], count_ - 64)) : 0);
    return static_cast<double>(good) / count_;
}

void Gate::clear() {
    history_ = {};
    count_ = 0;
    requests_ = in_memory_ = fetched_ = resolved_ = 0;
    probe_since_ns_ = 0;
}

void Gate::go_off(std::uint64_t now_ns, Reason reason) {
    const bool in_vain = for_waits_ && reason == Reason::no_use;
    vain_ = state_ == State::on ? 0 : vain_ + in_vain;
    for_waits_ = false;
    waits_ = 0;
    state_ = State::off;
    reason_ = reason;
    off_ns_ = now_ns;
    until_ns_ = now_ns + pause_ns_;
    running_ns_ = pause_ns_;
    pause_ns_ = std::min(pause_ns_ * (any_fetched_ ? 2 : 4), options_.longest_pause_ns);
    clear();
}

// A quarter of the pause, or half of the first where nothing was ever fetched.
std::uint64_t Gate::shortest_until() const {
    const bool is_new = !any_fetched_ && running_ns_ == options_.first_pause_ns;
    return std::min(until_ns_, off_ns_ + std::max(options_.least_pause_ns, running_ns_ / (is_new ? 2 : 4)));
}

unsigned Gate::waits_wanted() const {
    constexpr unsigned kMostDoublings = 16;
    return std::min(options_.first_waits << std::min(vain_, kMostDoublings), options_.most_waits);
}

Gate::Hears Gate::hears_waits(std::uint64_t now_ns) const {
    if (state_ != State::off || reason_ != Reason::no_use) return Hears::nothing;
    if (now_ns < off_ns_ + options_.least_pause_ns) return Hears::nothing;
    constexpr unsigned kFew = 16;
    return now_ns >= shortest_until() || waits_wanted() <= kFew ? Hears::aloud : Hears::quietly;
}

void Gate::waited(std::uint64_t now_ns) {
    if (hears_waits(now_ns) == Hears::nothing) return;
    waits_++;
    for_waits_ = for_waits_ || now_ns >= shortest_until() || waits_ >= waits_wanted();
    if (for_waits_) until_ns_ = std::min(until_ns_, now_ns);
}

bool Gate::update(std::uint64_t now_ns, double share) {
    switch (state_) {
        case State::on: return update_on(now_ns, share);
        case State::probing: return update_probe(now_ns);
        case State::off: break;
    }
    if (now_ns < until_ns_) return false;
    state_ = State::probing;
    clear();
    return true;
}

bool Gate::would_be_of_no_use(std::uint64_t now_ns, double share) const {
    Gate next = *this;
    return next.update(now_ns, share) && next.state_ == State::off && next.reason_ == Reason::no_use;
}

bool Gate::update_on(std::uint64_t now_ns, double share) {
    if (count_ >= options_.least && share < options_.break_even) {
        const double p = options_.break_even;
        const double scatter = std::sqrt(p * (1 - p) / count_);
        if (rate() < p - 2 * scatter) {
            go_off(now_ns, Reason::wasted);
            return true;
        }
    }
    if (requests_ < options_.use_window && !was_never_needed()) return false;
    const bool of_use = static_cast<double>(fetched_) >= options_.least_fetched * static_cast<double>(requests_);
    requests_ = fetched_ = 0;
    if (of_use) return false;
    go_off(now_ns, Reason::no_use);
    return true;
}

bool Gate::update_probe(std::uint64_t now_ns) {
    if (requests_ == 0) return false;
    if (probe_since_ns_ == 0) probe_since_ns_ = now_ns;
    const bool all_out = requests_ >= options_.probe_requests;
    const bool timed_out = now_ns - probe_since_ns_ >= options_.longest_probe_ns;
    const bool known = was_never_needed() || count_ >= options_.probe_outcomes || (all_out && resolved_ >= fetched_);
    if (!known && !timed_out) return false;
    if (fetched_ == 0 || count_ == 0) {
        go_off(now_ns, fetched_ == 0 ? Reason::no_use : Reason::wasted);
    } else if (rate() < options_.break_even) {
        go_off(now_ns, Reason::wasted);
    } else {
        state_ = State::on;
        pause_ns_ = std::max(pause_ns_ / 4, options_.first_pause_ns);
        requests_ = fetched_ = resolved_ = 0;
    }
    return true;
}

}  // namespace chainio::policy
