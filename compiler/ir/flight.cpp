#include "compiler/ir/flight.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "bpf-templates/chainio_step.h"

namespace chainio::ir {
namespace {

constexpr std::uint64_t kMostGenerations = 1024;  // that are looked at one by one

// Reads that are queued, at most: for each step of the chain, and on any one path in all. Where one path queues for a
// step and another one for the next, that is a read for each of the two, and still one in all.
struct Counts {
    std::vector<std::uint64_t> of_step;
    std::uint64_t all = 0;
    auto operator<=>(const Counts&) const = default;
};

// What a body queues on the paths that go on behind it, on those that leave the round of the loop around it, and on
// those that end the program inside. What has no value has no path.
struct Paths {
    std::optional<Counts> through, left, ended;
};

Counts most_of(Counts counts, const Counts& others) {
    for (std::size_t i = 0; i < counts.of_step.size(); i++)
        counts.of_step[i] = std::max(counts.of_step[i], others.of_step[i]);
    counts.all = std::max(counts.all, others.all);
    return counts;
}
std::optional<Counts> either(const std::optional<Counts>& a, const std::optional<Counts>& b) {
    if (!a || !b) return a ? a : b;
    return most_of(*a, *b);
}

// One program queues at most CIO_MAX_NEXT reads: no count has to go on above that.
Counts combined(Counts counts, std::uint64_t times, const Counts& others) {
    const auto bounded = [](std::uint64_t count) { return std::min<std::uint64_t>(count, CIO_MAX_NEXT); };
    for (std::size_t i = 0; i < counts.of_step.size(); i++)
        counts.of_step[i] = bounded(counts.of_step[i] * times + others.of_step[i]);
    counts.all = bounded(counts.all * times + others.all);
    return counts;
}
std::optional<Counts> behind(const Counts& first, const std::optional<Counts>& then) {
    if (!then) return std::nullopt;
    return combined(first, 1, *then);
}

template <class... Kinds>
bool is_any(const Stmt& stmt) {
    return (std::holds_alternative<Kinds>(stmt.node) || ...);
}

class Queueing {
  public:
    Queueing(std::size_t steps, std::vector<std::uint64_t>& largest)
        : none_{std::vector<std::uint64_t>(steps, 0)}, largest_(largest) {}

    Counts of(const Body& body) {
        const Paths paths = walk(body);
        return either(either(paths.through, paths.left), paths.ended).value_or(none_);
    }

  private:
    Paths walk(const Body& body) {
        Paths sum{none_, {}, {}};
        for (const Stmt& stmt : body) {
            const Counts before = *sum.through;
            const Paths here = statement(stmt);
            sum.left = either(sum.left, behind(before, here.left));
            sum.ended = either(sum.ended, behind(before, here.ended));
            sum.through = behind(before, here.through);
            if (!sum.through) break;
        }
        return sum;
    }

    Paths statement(const Stmt& stmt) {
        if (const auto* next = std::get_if<Next>(&stmt.node)) return {queued(*next), {}, {}};
        if (const auto* loop = std::get_if<Loop>(&stmt.node)) return repeated(walk(loop->body), loop->max);
        if (const auto* branch = std::get_if<If>(&stmt.node)) {
            const Paths yes = walk(branch->yes), no = walk(branch->no);
            return {either(yes.through, no.through), either(yes.left, no.left), either(yes.ended, no.ended)};
        }
        if (is_any<Break, Continue>(stmt)) return {{}, none_, {}};
        if (is_any<End, Return, Fail>(stmt)) return {{}, {}, none_};
        return {none_, {}, {}};
    }

    Counts queued(const Next& next) {
        Counts counts = none_;
        if (next.step >= counts.of_step.size()) return counts;
        counts.of_step[next.step] = counts.all = 1;
        const std::uint64_t length = next.length.is_imm ? next.length.value : CIO_MAX_BLOCK;
        largest_[next.step] = std::max(largest_[next.step], std::min<std::uint64_t>(length, CIO_MAX_BLOCK));
        return counts;
    }

    // The program ends in one round at most, the last one.
    Paths repeated(const Paths& body, std::uint64_t most_rounds) const {
        const Counts round = either(body.through, body.left).value_or(none_);
        Paths all{combined(round, most_rounds, none_), {}, {}};
        if (body.ended && most_rounds != 0) all.ended = combined(round, most_rounds - 1, *body.ended);
        return all;
    }

    Counts none_;
    std::vector<std::uint64_t>& largest_;
};

std::uint64_t total(const Counts& counts) {
    return std::min(counts.all, std::accumulate(counts.of_step.begin(), counts.of_step.end(), std::uint64_t{0}));
}

Counts next_generation(const Counts& generation, const std::vector<Counts>& queued, std::uint64_t hops) {
    const std::size_t steps = generation.of_step.size();
    Counts next{std::vector<std::uint64_t>(steps, 0)};
    std::uint64_t most = 0;  // that one of them queues
    for (std::size_t from = 0; from < steps; from++) {
        const std::uint64_t times = generation.of_step[from];
        for (std::size_t to = 0; to < steps; to++)
            next.of_step[to] = std::min(next.of_step[to] + times * queued[from].of_step[to], hops);
        next.all = std::min(next.all + times * queued[from].all, hops);
        if (times != 0) most = std::max(most, queued[from].all);
    }
    next.all = std::min(next.all, total(generation) * most);
    return next;
}

// Whatever the order: a read that is done leaves `most` others at most, and all together are no more than `hops`.
std::uint64_t most_ever(const Counts& first, const std::vector<Counts>& queued, std::uint64_t hops) {
    std::uint64_t most = 1;
    for (const Counts& counts : queued) most = std::max(most, counts.all);
    return (hops * (most - 1) + total(first)) / most;
}

}  // namespace

FlightBounds flight_bounds(const Module& module, const Chain& chain) {
    const std::size_t steps = chain.steps.size();
    FlightBounds bounds;
    if (steps == 0 || chain.entry < 0) return bounds;
    std::vector<std::uint64_t> largest(steps, 0);
    Queueing reads(steps, largest);
    const auto& programs = module.programs;
    Counts generation = reads.of(programs[static_cast<std::size_t>(chain.entry)].body);
    std::vector<Counts> queued;
    for (const Step& step : chain.steps) queued.push_back(reads.of(programs[step.program].body));

    // Steps run in the order in which their reads were queued, so at any time the reads in flight are what is left of
    // one generation and what it has queued of the next one. Each generation before has taken one of the `hops` reads
    // at least.
    const std::uint64_t largest_of_all = *std::ranges::max_element(largest) + CIO_PAD;
    const std::uint64_t ever = most_ever(generation, queued, chain.hops);
    std::uint64_t most_bytes = 0, in_flight = 0;
    std::set<Counts> seen;  // a generation that was there before goes on as it did then
    for (std::uint64_t done = 0; done < chain.hops && total(generation) != 0 && seen.insert(generation).second;
         done++) {
        if (done == kMostGenerations) {
            in_flight = ever;
            most_bytes = ever * largest_of_all;
            break;
        }
        const Counts next = next_generation(generation, queued, chain.hops);
        const std::uint64_t together = std::max(total(generation), total(next) + total(generation) - 1);
        const std::uint64_t at_once = std::min({together, ever, chain.hops - done});
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < steps; i++)
            bytes += std::min(generation.of_step[i] + next.of_step[i], at_once) * (largest[i] + CIO_PAD);
        in_flight = std::max(in_flight, at_once);
        most_bytes = std::max(most_bytes, std::min(bytes, at_once * largest_of_all));
        generation = next;
    }
    bounds.in_flight = static_cast<std::uint32_t>(in_flight);
    bounds.largest_read = static_cast<std::uint32_t>(*std::ranges::max_element(largest));
    bounds.block_memory = most_bytes;
    return bounds;
}

}  // namespace chainio::ir
