#include "runtime/engine/trial.h"

#include <algorithm>
#include <cstdio>

namespace chainio::engine {
namespace {

constexpr unsigned kWarmUp = 2;  // rounds

double of_chain(std::uint64_t ns, const Cost& cost) {
    return static_cast<double>(ns) / static_cast<double>(std::max<std::uint64_t>(cost.chains, 1)) / 1000.0;
}

bool no_worse(const Cost& kernel, const Cost& user) {
    return of_chain(kernel.cpu_ns, kernel) <= of_chain(user.cpu_ns, user) &&
           of_chain(kernel.elapsed_ns, kernel) <= of_chain(user.elapsed_ns, user);
}

}  // namespace

// User, kernel, kernel, user, and so on: what drifts meanwhile hits both alike.
Side Trial::side() const {
    if (decided_) return winner_;
    return (round_ + 1) / 2 % 2 == 0 ? Side::user : Side::kernel;
}

void Trial::add(Cost cost) {
    if (decided_) return;
    const Side ran = side();
    if (options_.judged != nullptr) cost = options_.judged(ran, cost);
    pair_[static_cast<unsigned>(ran)] = cost;
    if (round_++ % 2 == 1 && round_ > kWarmUp) compare();
}

// Ends as soon as the rounds to come cannot change anything.
void Trial::compare() {
    for (const Side each : {Side::user, Side::kernel}) {
        const Cost& cost = pair_[static_cast<unsigned>(each)];
        Cost& total = total_[static_cast<unsigned>(each)];
        total.chains += cost.chains;
        total.cpu_ns += cost.cpu_ns;
        total.elapsed_ns += cost.elapsed_ns;
    }
    pairs_++;
    won_ += no_worse(pair_[static_cast<unsigned>(Side::kernel)], pair_[static_cast<unsigned>(Side::user)]) ? 1 : 0;
    decided_ = won_ >= options_.needed || pairs_ - won_ > options_.pairs - options_.needed;
    if (!decided_) return;
    winner_ = won_ >= options_.needed ? Side::kernel : Side::user;
    const std::string of = std::to_string(won_) + " of " + std::to_string(pairs_) + " pairs of rounds";
    why_ = winner_ == Side::kernel
               ? "the kernel engine was no worse in " + of
               : "the kernel engine was no worse in only " + of + ", " + std::to_string(options_.needed) + " of " +
                     std::to_string(options_.pairs) + " are wanted";
    why_ += "; " + figures();
}

void Trial::give_up(const std::string& why) {
    decided_ = true;
    winner_ = Side::user;
    why_ = why;
}

std::string Trial::figures() const {
    const auto of = [](const Cost& cost) {
        char text[96];
        std::snprintf(text, sizeof text, "%.2f us of processor and %.2f us", of_chain(cost.cpu_ns, cost),
                      of_chain(cost.elapsed_ns, cost));
        return std::string(text);
    };
    return "a chain took " + of(total_[static_cast<unsigned>(Side::kernel)]) + " there, " +
           of(total_[static_cast<unsigned>(Side::user)]) + " by the user engine";
}

std::string Trial::describe() const {
    if (decided_) return "auto: " + why_;
    if (round_ > 0)
        return "auto: both engines are being tried, round " + std::to_string(round_ + 1) + " of at most " +
               std::to_string(2 * options_.pairs + kWarmUp);
    return "auto: the kernel engine is tried after " + std::to_string(options_.after_ns / 1'000'000) +
           " ms with chains in flight";
}

}  // namespace chainio::engine
