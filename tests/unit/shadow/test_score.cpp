// What chains were good for, and what follows from it: a gate for each of them.
#include "runtime/shadow/score.h"

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// A chain on each of two classes.
const char* const kTwo = R"(
app two { files data = "*.ptr"  files others = "*.oth" }
chain first on read(data) as r { prefetch r.file at r.offset + r.length for 4096 }
chain second on read(others) as r { prefetch r.file at r.offset + r.length for 4096 }
)";
constexpr std::uint32_t kFirst = 0, kSecond = 1;  // chains, and classes

class ScoreTest : public testing::Test {
  protected:
    // What was begun at the chain's latest event has ended.
    void end(std::uint32_t chain, RangeEnd how, unsigned times = 1) {
        for (unsigned i = 0; i < times; i++) score_.on_range(chain, score_.turns()[chain], how);
    }
    void asks(std::uint32_t chain, unsigned times = 1) {
        for (unsigned i = 0; i < times; i++) score_.ran(chain, true, true);
    }
    void finds_in_memory(std::uint32_t chain) {
        for (int i = 0; i < 16; i++) {
            EXPECT_TRUE(score_.admit(chain));
            score_.cached(chain);
        }
    }
    policy::Gate::State state(std::uint32_t chain) const { return score_.gate(chain).state(); }
    const shim::ChainStats& stats(std::uint32_t chain) const { return region_->stats.chains[chain]; }

    using State = policy::Gate::State;
    std::shared_ptr<const spec::Loaded> spec_ = compiled(kTwo);
    SpecPlan plan_ = *plan_of(spec_->module());
    std::unique_ptr<shim::Region> region_ = std::make_unique<shim::Region>();
    Score score_{spec_->module(), plan_, *region_, true};
};

TEST_F(ScoreTest, EachChainHasAGateOfItsOwn) {
    end(kFirst, RangeEnd::wasted, 32);
    end(kSecond, RangeEnd::hit, 32);
    score_.update_gates(kMs);
    EXPECT_EQ(state(kFirst), State::off);
    EXPECT_EQ(state(kSecond), State::on);
    EXPECT_EQ(score_.gate(kSecond).rate(), 1);
    EXPECT_EQ(stats(kFirst).gate, shim::GateState::off);
    EXPECT_EQ(stats(kFirst).gate_changes, 1u);
    EXPECT_EQ(stats(kSecond).gate_changes, 0u);
    EXPECT_FALSE(score_.wants_events(kFirst));
    EXPECT_FALSE(score_.admit(kFirst));
    EXPECT_TRUE(score_.admit(kSecond));
    EXPECT_EQ(stats(kFirst).dropped, 1u) << "what a gate refuses is counted";
    EXPECT_EQ(stats(kSecond).dropped, 0u);
    EXPECT_EQ(region_->class_posts[kFirst].load(), shim::kPostOpens);
}

TEST_F(ScoreTest, AFetchThatShortenedNoWaitIsCountedAsLateAndAsInVain) {
    end(kFirst, RangeEnd::vain, 32);
    end(kSecond, RangeEnd::late, 32);
    score_.update_gates(kMs);
    EXPECT_EQ(state(kFirst), State::off);
    EXPECT_EQ(state(kSecond), State::on);
    EXPECT_EQ(stats(kFirst).late, 32u);
    EXPECT_EQ(stats(kSecond).late, 32u);
    EXPECT_EQ(stats(kFirst).wasted + stats(kFirst).hits, 0u);
}

// A probe is about what goes out from its begin on, whatever becomes of the rest meanwhile.
TEST_F(ScoreTest, WhatWasFetchedBeforeAProbeSaysNothingAboutIt) {
    asks(kFirst, 3);
    end(kFirst, RangeEnd::wasted, 32);
    score_.update_gates(kMs);
    ASSERT_EQ(state(kFirst), State::off);
    score_.update_gates(60 * kMs);
    ASSERT_EQ(state(kFirst), State::probing);
    end(kFirst, RangeEnd::hit, 20);
    end(kFirst, RangeEnd::wasted, 20);
    EXPECT_EQ(score_.gate(kFirst).outcomes(), 0u);
    EXPECT_EQ(stats(kFirst).hits, 20u) << "it is counted all the same";
    asks(kFirst);
    end(kFirst, RangeEnd::hit);
    EXPECT_EQ(score_.gate(kFirst).outcomes(), 1u);
}

TEST_F(ScoreTest, WhatIsGivenUpHasCountedAgainstItsChainAlready) {
    end(kFirst, RangeEnd::overdue, 31);
    end(kFirst, RangeEnd::given_up, 31);
    score_.update_gates(kMs);
    EXPECT_EQ(state(kFirst), State::on);
    EXPECT_EQ(stats(kFirst).wasted, 31u);
}

TEST_F(ScoreTest, AHitSavesWhatAReadTakesThatWaitsForAnIdleDisk) {
    const auto saved_by_a_read = [&](std::uint64_t took_ns, bool goes_on) {
        const std::uint64_t before = stats(kFirst).saved_ns;
        score_.expect_saving(kFirst, took_ns, false, goes_on);
        end(kFirst, RangeEnd::hit, 2);
        return stats(kFirst).saved_ns - before;
    };
    EXPECT_EQ(saved_by_a_read(1000, false), 0u) << "nobody knows yet";
    score_.fetch_took(kMs);
    EXPECT_EQ(saved_by_a_read(1000, false), kMs - 1000) << "once, for all that the read has touched";
    EXPECT_EQ(saved_by_a_read(1000, true), 0u);
    EXPECT_EQ(saved_by_a_read(2 * kMs, false), 0u);
    score_.program_read(kFirst, 4096, 3 * kMs, false);
    EXPECT_EQ(saved_by_a_read(0, false), kMs) << "the program waits longer, since so much is fetched";
    for (int i = 0; i < 20; i++) score_.program_read(kFirst, 4096, kMs / 10, true);
    EXPECT_EQ(saved_by_a_read(0, false), kMs) << "one that was helped does not count";
    for (int i = 0; i < 20; i++) score_.fetch_took(kMs / 4);
    EXPECT_NEAR(static_cast<double>(saved_by_a_read(0, false)), kMs / 4, kMs / 100);
    for (int i = 0; i < 4; i++) score_.fetch_took(100 * kMs);
    EXPECT_LT(saved_by_a_read(0, false), 10 * kMs) << "the disk was busy";
}

TEST_F(ScoreTest, ReadsAreCountedByTheirClass) {
    score_.program_read(kSecond, 4096, 2'000, false);
    score_.program_read(kSecond, 100, 70'000, true);
    const shim::ClassStats& out = region_->stats.classes[kSecond];
    EXPECT_EQ(out.reads, 2u);
    EXPECT_EQ(out.read_bytes, 4196u);
    EXPECT_EQ(out.read_ns, 72'000u);
    EXPECT_EQ(out.slow_reads, 1u);
    EXPECT_EQ(out.slow_ns, 70'000u);
    EXPECT_EQ(region_->stats.classes[kFirst].reads, 0u);
}

TEST_F(ScoreTest, TheReportSaysHowOftenAChainWentOffAndWhy) {
    EXPECT_TRUE(score_.gate_notes().empty());
    end(kFirst, RangeEnd::wasted, 32);
    score_.update_gates(kMs);
    score_.update_gates(60 * kMs);
    ASSERT_EQ(state(kFirst), State::probing);
    EXPECT_EQ(score_.gate_notes(), std::vector<std::string>{"chain 'first' was switched off once, because too little "
                                                            "of what it fetched was read"});
    asks(kFirst);
    finds_in_memory(kFirst);
    score_.update_gates(61 * kMs);
    ASSERT_EQ(state(kFirst), State::off);
    EXPECT_EQ(score_.gate_notes(), std::vector<std::string>{"chain 'first' was switched off 2 times, the last time "
                                                            "because what it asked for was in memory already"});
}

TEST_F(ScoreTest, AChainThatIsOffForWantOfColdDataIsProbedWhenAReadOfItsClassWaits) {
    for (const std::uint32_t chain : {kFirst, kSecond}) finds_in_memory(chain);
    score_.update_gates(kMs);
    ASSERT_EQ(state(kFirst), State::off);
    ASSERT_EQ(state(kSecond), State::off);
    score_.waited(kFirst, 2 * kMs);
    score_.update_gates(40 * kMs);
    EXPECT_EQ(state(kFirst), State::off) << "a read from memory may look like that on a busy machine";
    EXPECT_EQ(region_->class_posts[kFirst].load(), shim::kPostOpens | shim::kPostSlowReads);
    score_.waited(kFirst, 41 * kMs);
    EXPECT_EQ(state(kFirst), State::probing);
    EXPECT_EQ(state(kSecond), State::off) << "its files are others";
}

TEST_F(ScoreTest, WhatWasWantedAlreadyIsNoRequestInVain) {
    score_.fetched(kFirst, 4096);
    score_.fetched(kSecond, 4096);
    for (int i = 0; i < 300; i++) {
        EXPECT_TRUE(score_.admit(kFirst));
        score_.duplicate(kFirst);
        EXPECT_TRUE(score_.admit(kSecond));
        score_.cached(kSecond);
    }
    score_.update_gates(kMs);
    EXPECT_EQ(state(kFirst), State::on);
    EXPECT_EQ(stats(kFirst).duplicate, 300u);
    EXPECT_EQ(state(kSecond), State::off);
    EXPECT_EQ(stats(kSecond).cached, 300u);
}

}  // namespace
}  // namespace chainio::shadow::test
