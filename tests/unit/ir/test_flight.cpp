// The bound of reads in flight: exact where it can be, and never below what a run does.
#include <deque>
#include <random>

#include "compiler/ir/cost.h"
#include "compiler/ir/flight.h"
#include "tests/unit/ir/ir_fixture.h"

namespace chainio::ir::test {
namespace {

Next read_for(std::uint16_t step, std::uint64_t length = 512) { return Next{step, 0, imm(0), imm(length), imm(0)}; }

// A chain whose steps are built by `builds`; its entry queues one read for step 0.
Module chain_of(std::uint32_t hops, const std::vector<std::function<void(Builder&)>>& builds) {
    Module m = module_with_step(step([](Builder&) {}));
    m.programs.pop_back();
    m.chains[0].hops = hops;
    m.chains[0].steps.clear();
    for (const auto& build : builds) {
        m.chains[0].steps.push_back({"s", static_cast<std::uint16_t>(m.programs.size())});
        m.programs.push_back(step(build));
    }
    m.programs[0].body = {Stmt{{}, read_for(0)}};
    return m;
}
FlightBounds flight(const Module& m) { return flight_bounds(m, m.chains[0]); }

TEST(Flight, AWalkHasOneReadInFlight) {
    const Module m = chain_of(16, {[](Builder& b) {
                                  b.if_(imm(1), [&] {
                                      b.add(read_for(0));
                                      b.add(End{});
                                  });
                                  b.add(read_for(0));
                                  b.add(End{});
                              }});
    EXPECT_EQ(flight(m).in_flight, 1U);
    EXPECT_EQ(flight(m).largest_read, 512U);
    EXPECT_EQ(flight(m).block_memory, 512U + CIO_PAD);
}

TEST(Flight, AFanOutIsInFlightAtOnce) {
    const auto walk = [](Builder& b) {
        b.loop(imm(15), 15, CIO_MALFORMED, [&](Operand) { b.add(read_for(1, 4096)); });
        b.add(read_for(0));
    };
    const Module m = chain_of(65536, {walk, [](Builder& b) { b.add(End{}); }});
    EXPECT_EQ(flight(m).in_flight, 31U) << "what is left of one generation of 16, and the next one";
    EXPECT_LT(flight(m).block_memory, 31U * 4200U);
}

// `for … { if … { goto found } }  goto walk`: whatever the loop's bound, the step goes once.
TEST(Flight, AGotoInALoopIsOneRead) {
    const auto leaves = [](decltype(Stmt::node) how) {
        return [how](Builder& b) {
            b.loop(imm(1000), 1000, CIO_MALFORMED, [&](Operand) {
                b.if_(b.input(Input::block_tag), [&] {
                    b.add(read_for(1, CIO_MAX_BLOCK));
                    std::visit([&](const auto& node) { b.add(node); }, how);
                });
            });
            b.add(read_for(0, CIO_MAX_BLOCK));
            b.add(End{});
        };
    };
    const auto value = [](Builder& b) { b.add(read_for(0)); };
    EXPECT_EQ(flight(chain_of(20000, {leaves(End{}), value})).in_flight, 1U);
    EXPECT_EQ(flight(chain_of(20000, {leaves(End{}), value})).block_memory, CIO_MAX_BLOCK + CIO_PAD);
    EXPECT_GT(flight(chain_of(20000, {leaves(Continue{}), value})).in_flight, 16U) << "each round queues one";
}

// The last round queues two and ends the step, the three before it one each.
TEST(Flight, TheRoundsBeforeTheLastOneCount) {
    const auto ends_in_the_last = [](Builder& b) {
        b.loop(imm(4), 4, CIO_MALFORMED, [&](Operand) {
            b.add(read_for(1));
            b.if_(b.input(Input::block_tag), [&] {
                b.add(read_for(1));
                b.add(End{});
            });
        });
        b.add(Fail{CIO_MALFORMED});
    };
    EXPECT_EQ(flight(chain_of(100, {ends_in_the_last, [](Builder& b) { b.add(End{}); }})).in_flight, 5U);
}

TEST(Flight, StepsThatGoToOneOrTheOtherHaveOneReadInFlight) {
    const auto either = [](Builder& b) {
        b.if_(b.input(Input::block_tag), [&] { b.add(read_for(0, 4096)); }, [&] { b.add(read_for(1, 4096)); });
        b.add(End{});
    };
    EXPECT_EQ(flight(chain_of(65536, {either, either})).in_flight, 1U);
    EXPECT_EQ(flight(chain_of(65536, {either, either})).block_memory, 4096U + CIO_PAD);
}

// One of two steps runs, and each would queue three: there are never six.
TEST(Flight, WhatEitherOfTwoStepsQueuesIsNotBoth) {
    const auto either = [](Builder& b) {
        b.if_(b.input(Input::block_tag), [&] { b.add(read_for(1)); }, [&] { b.add(read_for(2)); });
    };
    const auto three = [](Builder& b) {
        for (int i = 0; i < 3; i++) b.add(read_for(3));
    };
    EXPECT_EQ(flight(chain_of(100, {either, three, three, [](Builder& b) { b.add(End{}); }})).in_flight, 3U);
}

// Ten steps, each of which goes on to the next or to four leaves; the last one goes to 16. Of the 30 hops a run that
// has always gone on has 20 left, though other runs have taken them.
TEST(Flight, WhatOtherRunsHaveReadDoesNotCountForThisOne) {
    constexpr std::uint16_t kSteps = 10, kLeaf = kSteps;
    const auto leaves = [](Builder& b, int count) {
        for (int i = 0; i < count; i++) b.add(read_for(kLeaf));
    };
    std::vector<std::function<void(Builder&)>> builds;
    for (std::uint16_t i = 1; i < kSteps; i++)
        builds.emplace_back(
            [=](Builder& b) { b.if_(b.input(Input::block_tag), [&] { b.add(read_for(i)); }, [&] { leaves(b, 4); }); });
    builds.emplace_back([=](Builder& b) { leaves(b, 16); });
    builds.emplace_back([](Builder& b) { b.add(End{}); });
    EXPECT_GE(flight(chain_of(30, builds)).in_flight, 16U);
    EXPECT_LE(flight(chain_of(30, builds)).in_flight, 20U);
    EXPECT_GE(flight(chain_of(30, builds)).block_memory, 16U * (512 + CIO_PAD));
}

TEST(Flight, GenerationsThatGrowForEverAreQuick) {
    const auto both = [](Builder& b) {
        b.add(read_for(0));
        b.add(read_for(1, 4096));
    };
    const auto stays = [](Builder& b) { b.add(read_for(1, 4096)); };
    constexpr std::uint32_t kHops = 1U << 31;
    EXPECT_EQ(flight(chain_of(kHops, {both, stays})).in_flight, kHops / 2) << "each read leaves one more";
}

TEST(Flight, GrowthStopsAtTheHops) {
    const Module m = chain_of(100, {[](Builder& b) {
                                  for (int i = 0; i < 16; i++) b.add(read_for(0));
                              }});
    EXPECT_LE(flight(m).in_flight, 100U);
    EXPECT_GE(flight(m).in_flight, 83U) << "17 reads done, 83 queued behind them";
    EXPECT_EQ(flight(chain_of(1, {[](Builder& b) { b.add(read_for(0)); }})).in_flight, 1U);
}

TEST(Flight, ALengthThatIsNotConstantCountsAsTheLargestBlock) {
    const Module m = chain_of(4, {[](Builder& b) { b.add(Next{0, 0, imm(0), b.input(Input::block_tag), imm(0)}); }});
    EXPECT_EQ(flight(m).largest_read, std::uint32_t{CIO_MAX_BLOCK});
}

TEST(Flight, ChainsThatAlternateForeverAreQuick) {
    const auto to = [](std::uint16_t s) { return [s](Builder& b) { b.add(read_for(s)); }; };
    EXPECT_EQ(flight(chain_of(1U << 31, {to(1), to(2), to(0)})).in_flight, 1U);
}

using Random = std::mt19937;
void random_body(Builder& b, Random& random, std::uint16_t steps, int depth, bool in_loop = false) {
    const auto pick = [&](unsigned n) { return static_cast<std::uint16_t>(random() % n); };
    for (int i = 0, n = 1 + pick(3); i < n; i++) {
        const unsigned kind = depth > 2 ? pick(2) : pick(in_loop ? 6 : 5);
        if (kind <= 1) b.add(read_for(pick(steps), 1U + pick(4096)));
        if (kind == 2)
            b.if_(
                b.input(Input::block_tag), [&] { random_body(b, random, steps, depth + 1, in_loop); },
                [&] {
                    if (pick(2)) random_body(b, random, steps, depth + 1, in_loop);
                });
        if (kind == 3)
            b.loop(b.input(Input::block_tag), 1U + pick(4), CIO_MALFORMED,
                   [&](Operand) { random_body(b, random, steps, depth + 1, true); });
        if (kind == 4)
            b.if_(b.input(Input::block_tag), [&] {
                random_body(b, random, steps, 3);
                b.add(End{});
            });
        if (kind == 5)
            b.if_(b.input(Input::block_tag), [&] {
                random_body(b, random, steps, 3);
                if (pick(2)) return b.add(Break{});
                b.add(Continue{});
            });
    }
}

// Executes a body with random conditions, and gives how it ended.
enum class Left : std::uint8_t { nothing, round, loop, step };
Left run_randomly(const Body& body, Random& random, std::vector<Next>& queued) {
    for (const Stmt& stmt : body) {
        if (const auto* next = std::get_if<Next>(&stmt.node)) queued.push_back(*next);
        if (std::holds_alternative<End>(stmt.node)) return Left::step;
        if (std::holds_alternative<Break>(stmt.node)) return Left::loop;
        if (std::holds_alternative<Continue>(stmt.node)) return Left::round;
        if (const auto* branch = std::get_if<If>(&stmt.node)) {
            const Left left = run_randomly(random() % 2 ? branch->yes : branch->no, random, queued);
            if (left != Left::nothing) return left;
        }
        if (const auto* loop = std::get_if<Loop>(&stmt.node)) {
            const std::uint32_t rounds = random() % (loop->max + 1);
            Left left = Left::nothing;
            for (std::uint32_t i = 0; i < rounds && left < Left::loop; i++)
                left = run_randomly(loop->body, random, queued);
            if (left == Left::step) return left;
        }
    }
    return Left::nothing;
}

TEST(Flight, NoRunIsEverAboveTheBound) {
    Random random(7);
    for (int round = 0; round < 400; round++) {
        const auto steps = static_cast<std::uint16_t>(1 + random() % 3);
        std::vector<std::function<void(Builder&)>> builds(steps, [&](Builder& b) { random_body(b, random, steps, 0); });
        const Module m = chain_of(1U + static_cast<std::uint32_t>(random() % 300), builds);
        const FlightBounds bounds = flight(m);
        for (int run = 0; run < 20; run++) {
            std::deque<Next> queue{read_for(0)};
            std::uint64_t issued = 1;
            while (!queue.empty()) {
                std::uint64_t bytes = 0;
                for (const Next& read : queue) bytes += read.length.value;
                ASSERT_LE(queue.size(), bounds.in_flight) << "round " << round;
                ASSERT_LE(bytes, bounds.block_memory) << "round " << round;
                const std::uint16_t s = queue.front().step;
                queue.pop_front();
                std::vector<Next> queued;
                run_randomly(m.programs[m.chains[0].steps[s].program].body, random, queued);
                if (queued.size() > CIO_MAX_NEXT || issued + queued.size() > m.chains[0].hops) break;
                issued += queued.size();
                queue.insert(queue.end(), queued.begin(), queued.end());
            }
        }
    }
}

}  // namespace
}  // namespace chainio::ir::test
