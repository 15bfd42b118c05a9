// How --engine=auto decides, by costs that are given: nothing here is timed.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/engine/kernel_program.h"
#include "runtime/engine/trial.h"
#include "tests/unit/engine/fake_backend.h"
#include "tests/unit/engine/machine.h"

namespace chainio::engine::test {
namespace {

struct Prices {
    std::uint64_t cpu, elapsed;  // of a chain
};

// The rounds that a trial asks for until it has decided, each of so many chains.
std::vector<Side> play(Trial& trial, Prices user, Prices kernel, std::uint64_t chains = 100) {
    std::vector<Side> rounds;
    while (!trial.decided() && rounds.size() < 100) {
        const Side side = trial.side();
        const Prices& price = side == Side::user ? user : kernel;
        rounds.push_back(side);
        trial.add({chains, price.cpu * chains, price.elapsed * chains});
        chains += 7;  // costs are a chain's, whatever their number
    }
    return rounds;
}

TEST(Trial, TakesTheKernelWhereItIsNoWorse) {
    for (const Prices& kernel : {Prices{1000, 5000}, Prices{900, 5000}, Prices{1000, 4000}}) {
        Trial trial(TrialOptions{});
        const auto rounds = play(trial, {1000, 5000}, kernel);
        EXPECT_EQ(trial.side(), Side::kernel);
        EXPECT_EQ(rounds.size(), 14u) << "two that warm up, and six pairs";
        EXPECT_NE(trial.describe().find("auto: the kernel engine was no worse in 6 of 6 pairs of rounds"),
                  std::string::npos)
            << trial.describe();
    }
}

TEST(Trial, StaysWithTheUserEngineWhereTheKernelCostsMoreOfEither) {
    for (const Prices& kernel : {Prices{1010, 2000}, Prices{500, 5050}, Prices{1200, 6000}}) {
        Trial trial(TrialOptions{});
        const auto rounds = play(trial, {1000, 5000}, kernel);
        EXPECT_EQ(trial.side(), Side::user);
        EXPECT_EQ(rounds.size(), 8u) << "after three pairs six of eight cannot be had any more";
    }
}

TEST(Trial, PrintsTheFiguresThatItDecidedBy) {
    Trial trial(TrialOptions{});
    EXPECT_EQ(trial.describe(), "auto: the kernel engine is tried after 1000 ms with chains in flight");
    trial.add({100, 1, 1});
    EXPECT_EQ(trial.describe(), "auto: both engines are being tried, round 2 of at most 18");
    trial.add({100, 1, 1});
    play(trial, {3500, 9000}, {2500, 8250});
    EXPECT_EQ(trial.describe(),
              "auto: the kernel engine was no worse in 6 of 6 pairs of rounds; a chain took 2.50 us of processor and "
              "8.25 us there, 3.50 us of processor and 9.00 us by the user engine");
}

TEST(Trial, TakesTurnsSoThatDriftHitsBothAlike) {
    Trial trial(TrialOptions{});
    const auto rounds = play(trial, {1, 1}, {1, 1});
    for (std::size_t i = 0; i + 1 < rounds.size(); i += 2) EXPECT_NE(rounds[i], rounds[i + 1]) << i;
    for (std::size_t i = 1; i + 1 < rounds.size(); i += 2) EXPECT_EQ(rounds[i], rounds[i + 1]) << i;
}

TEST(Trial, DoesNotCountTheFirstTwoRounds) {
    Trial trial(TrialOptions{});
    trial.add({10, 10, 10});
    trial.add({10, 1'000'000, 1'000'000});  // the kernel's first
    play(trial, {1000, 1000}, {900, 900});
    EXPECT_EQ(trial.side(), Side::kernel);
}

TEST(Trial, AFewDisturbedRoundsDoNotDecide) {
    Trial trial(TrialOptions{});
    for (unsigned round = 0; !trial.decided(); round++) {
        const bool kernel = trial.side() == Side::kernel;
        const bool disturbed = kernel && (round / 2 == 2 || round / 2 == 4);
        trial.add({1, disturbed ? 90u : kernel ? 8u : 10u, 10});
    }
    EXPECT_EQ(trial.side(), Side::kernel);
    EXPECT_NE(trial.describe().find("6 of 8 pairs"), std::string::npos) << trial.describe();
}

TEST(Trial, IsBounded) {
    const TrialOptions options;
    Trial trial(options);
    unsigned rounds = 0;
    for (; !trial.decided(); rounds++)
        trial.add({1, trial.side() == Side::kernel && rounds / 2 % 2 == 0 ? 20u : 10u, 10});
    EXPECT_LE(rounds, 2 * options.pairs + 2);
    EXPECT_TRUE(trial.full(options.round_chains, 0));
    EXPECT_TRUE(trial.full(1, options.round_ns));
    EXPECT_FALSE(trial.full(options.round_chains - 1, options.round_ns - 1));
}

TEST(Trial, StaysDecided) {
    Trial trial(TrialOptions{});
    trial.give_up("no such kernel");
    EXPECT_TRUE(trial.decided());
    for (int i = 0; i < 40; i++) trial.add({1, trial.side() == Side::kernel ? 1u : 9u, 1});
    EXPECT_EQ(trial.side(), Side::user);
    EXPECT_EQ(trial.describe(), "auto: no such kernel");
}

// Where the kernel cannot, nothing is tried; where it can, tests/vm has engines change under random chains.
TEST(EngineWithTrial, SaysWhyItTriesNothing) {
    const std::string obstacle = kernel_engine_obstacle();
    if (obstacle.empty()) GTEST_SKIP() << "this kernel has the kernel engine";
    EngineOptions options;
    options.trial.emplace().after_ns = 0;
    auto engine = Engine::create(spec::Loaded::from_artifact(machine({})), options);
    ASSERT_TRUE(engine) << engine.error();
    EXPECT_FALSE((*engine)->choosing());
    EXPECT_FALSE((*engine)->in_kernel());
    EXPECT_TRUE((*engine)->describe().starts_with("user engine: ")) << (*engine)->describe();
    EXPECT_TRUE((*engine)->describe().ends_with("; auto: " + obstacle)) << (*engine)->describe();
}

}  // namespace
}  // namespace chainio::engine::test
