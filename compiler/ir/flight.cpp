#include "compiler/ir/flight.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "bpf-templates/chainio_step.h"

namespace chainio::ir {
namespace {

using Counts = std::vector<std::uint64_t>;  // one a step of the chain: reads that are queued for it

// What one body queues, on the paths that go on behind it and on those that end the program inside.
struct Paths {
    Counts through, ended;
    bool goes_on = true;
};

void raise_to(Counts& counts, const Counts& others) {
    for (std::size_t i = 0; i < counts.size(); i++) counts[i] = std::max(counts[i], others[i]);
}
Counts sum_of(Counts counts, const Counts& others) {
    for (std::size_t i = 0; i < counts.size(); i++)
        counts[i] = std::min<std::uint64_t>(counts[i] + others[i], CIO_MAX_NEXT);
    return counts;
}

class Queueing {
  public:
    Queueing(std::size_t steps, Counts& largest) : none_(steps, 0), largest_(largest) {}

    Counts of(const Body& body) {
        Paths paths = walk(body);
        if (paths.goes_on) raise_to(paths.ended, paths.through);
        return paths.ended;
    }

  private:
    Paths walk(const Body& body) {
        Paths sum{none_, none_, true};
        for (const Stmt& stmt : body) {
            const Paths here = statement(stmt);
            raise_to(sum.ended, sum_of(sum.through, here.ended));
            if (here.goes_on) sum.through = sum_of(sum.through, here.through);
            sum.goes_on = here.goes_on;
            if (!sum.goes_on) {
                raise_to(sum.ended, sum.through);
                break;
            }
        }
        return sum;
    }

    Paths statement(const Stmt& stmt) {
        Paths here{none_, none_, true};
        if (const auto* next = std::get_if<Next>(&stmt.node)) {
            queue(*next, here.through);
        } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
            here = either(walk(branch->yes), walk(branch->no));
        } else if (const auto* loop = std::get_if<Loop>(&stmt.node)) {
            here = repeated(walk(loop->body), loop->max);
        } else {
            const bool ends = std::holds_alternative<End>(stmt.node) || std::holds_alternative<Return>(stmt.node) ||
                              std::holds_alternative<Fail>(stmt.node);
            here.goes_on = !ends;
        }
        return here;
    }

    void queue(const Next& next, Counts& counts) {
        if (next.step >= counts.size()) return;
        counts[next.step] = 1;
        const std::uint64_t length = next.length.is_imm ? next.length.value : CIO_MAX_BLOCK;
        largest_[next.step] = std::max(largest_[next.step], std::min<std::uint64_t>(length, CIO_MAX_BLOCK));
    }

    static Paths either(Paths yes, const Paths& no) {
        raise_to(yes.ended, no.ended);
        if (!yes.goes_on) {
            yes.through = no.through;
        } else if (no.goes_on) {
            raise_to(yes.through, no.through);
        }
        yes.goes_on = yes.goes_on || no.goes_on;
        return yes;
    }

    // A `break` leaves a loop from inside, so what its body queues before an end counts for what follows too.
    static Paths repeated(Paths body, std::uint64_t times) {
        if (body.goes_on) raise_to(body.ended, body.through);
        for (std::uint64_t& count : body.ended) count = std::min<std::uint64_t>(count * times, CIO_MAX_NEXT);
        return {body.ended, body.ended, true};
    }

    Counts none_;
    Counts& largest_;
};

std::uint64_t total(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }

// One program queues at most CIO_MAX_NEXT reads in all. The bound by steps may add up to more, which only loosens it.
Counts next_generation(const Counts& generation, const std::vector<Counts>& queued, std::uint64_t hops) {
    Counts next(generation.size(), 0);
    for (std::size_t from = 0; from < generation.size(); from++) {
        for (std::size_t to = 0; to < next.size(); to++)
            next[to] = std::min(next[to] + generation[from] * queued[from][to], hops);
    }
    return next;
}

}  // namespace

FlightBounds flight_bounds(const Module& module, const Chain& chain) {
    const std::size_t steps = chain.steps.size();
    FlightBounds bounds;
    if (steps == 0 || chain.entry < 0) return bounds;
    Counts largest(steps, 0);
    Queueing reads(steps, largest);
    const auto& programs = module.programs;
    Counts generation = reads.of(programs[static_cast<std::size_t>(chain.entry)].body);
    std::vector<Counts> queued;
    for (const Step& step : chain.steps) queued.push_back(reads.of(programs[step.program].body));

    // Steps run in the order in which their reads were queued, so at any time the reads in flight are what is left of
    // one generation and what it has queued of the next one. All generations together are at most `hops` reads.
    std::uint64_t most_bytes = 0, in_flight = 0;
    std::set<Counts> seen;  // a generation that was there before goes on as it did then
    for (std::uint64_t done = 0; done < chain.hops && total(generation) != 0 && seen.insert(generation).second;) {
        const Counts next = next_generation(generation, queued, chain.hops);
        const std::uint64_t at_once =
            std::min(std::max(total(generation), total(next) + total(generation) - 1), chain.hops - done);
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < steps; i++)
            bytes += std::min(generation[i] + next[i], at_once) * (largest[i] + CIO_PAD);
        const std::uint64_t most = at_once * (*std::ranges::max_element(largest) + CIO_PAD);
        in_flight = std::max(in_flight, at_once);
        most_bytes = std::max(most_bytes, std::min(bytes, most));
        done += total(generation);
        generation = next;
    }
    bounds.in_flight = static_cast<std::uint32_t>(in_flight);
    bounds.largest_read = static_cast<std::uint32_t>(*std::ranges::max_element(largest));
    bounds.block_memory = most_bytes;
    return bounds;
}

}  // namespace chainio::ir
