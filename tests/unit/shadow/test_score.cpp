// What chains were good for, and what follows from it: a gate for each of them.
#include "runtime/shadow/score.h"

#include <tuple>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

// A chain on each of two classes.
const char* const kTwo = R"(
app two { files data = "*.ptr"  files others = "*.oth" { no_read_ahead } }
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
    void probe(std::uint32_t chain, RangeEnd how) {
        asks(chain);
        for (int i = 0; i < 16; i++) {
            EXPECT_TRUE(score_.admit(chain));
            score_.fetched(chain, 4096);
        }
        end(chain, how, 16);
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

// A leaf of an index names rows before those that are wanted: that nobody reads them is known long after the others
// were read, of all at once, and of more than a gate looks back to.
TEST_F(ScoreTest, WhatIsLeftOfAnEventStandsBesideWhatWasReadOfIt) {
    for (const auto& [chain, read, ends] :
         {std::tuple(kFirst, 150u, State::on), std::tuple(kSecond, 60u, State::off)}) {
        asks(chain);
        const std::uint64_t turn = score_.turns()[chain];
        for (int i = 0; i < 300; i++) score_.fetched(chain, 4096);
        end(chain, RangeEnd::hit, read);
        asks(chain, 20);
        score_.update_gates(kMs);
        ASSERT_EQ(state(chain), State::on);
        for (unsigned i = read; i < 300; i++) score_.on_range(chain, turn, RangeEnd::overdue);
        EXPECT_NEAR(score_.gate(chain).rate(), read / 300.0, 0.05);
        score_.update_gates(2 * kMs);
        EXPECT_EQ(state(chain), ends) << read;
    }
}

// A query looks at the page where its range ends before it goes there, and begins in the middle of another: what these
// two name in vain is known all together, when hundreds of others have been read.
TEST_F(ScoreTest, TwoEventsThatWereExceptionsDoNotSwitchOff) {
    std::vector<std::uint64_t> exceptions;
    for (unsigned event = 0; event < 6; event++) {
        asks(kFirst);
        if (event < 2) exceptions.push_back(score_.turns()[kFirst]);
        score_.fetched(kFirst, 100 * kPiece);
        end(kFirst, RangeEnd::hit, event < 2 ? 10 : 100);
    }
    asks(kFirst, 20);
    for (const std::uint64_t turn : exceptions)
        for (int i = 0; i < 90; i++) score_.on_range(kFirst, turn, RangeEnd::overdue);
    EXPECT_LT(score_.gate(kFirst).rate(), 0.2);
    score_.update_gates(kMs);
    EXPECT_EQ(state(kFirst), State::on) << "420 of 600 were read";
    for (int event = 0; event < 8; event++) {
        asks(kFirst);
        score_.fetched(kFirst, 100 * kPiece);
        end(kFirst, RangeEnd::hit, 10);
        for (int i = 0; i < 90; i++) end(kFirst, RangeEnd::overdue);
        score_.update_gates(2 * kMs);
        if (state(kFirst) == State::off) break;
    }
    EXPECT_EQ(state(kFirst), State::off) << "they are none any more";
}

// What was in memory says nothing against the chain: it is there for when it is not.
TEST_F(ScoreTest, TheKernelReadsNothingAheadUnlessTheChainsAreInVain) {
    const auto is_told = [&](std::uint32_t file_class) {
        return (region_->class_posts[file_class].load() & shim::kNoReadAhead) != 0;
    };
    EXPECT_FALSE(is_told(kFirst)) << "its class does not say so";
    EXPECT_TRUE(is_told(kSecond));
    finds_in_memory(kSecond);
    score_.update_gates(kMs);
    ASSERT_EQ(state(kSecond), State::off);
    EXPECT_TRUE(is_told(kSecond));
    score_.update_gates(3000 * kMs);
    ASSERT_EQ(state(kSecond), State::probing);
    probe(kSecond, RangeEnd::wasted);
    score_.update_gates(3001 * kMs);
    ASSERT_EQ(state(kSecond), State::off);
    EXPECT_FALSE(is_told(kSecond));
    score_.update_gates(6000 * kMs);
    ASSERT_EQ(state(kSecond), State::probing);
    EXPECT_FALSE(is_told(kSecond)) << "it has not shown yet that it is of use";
    probe(kSecond, RangeEnd::hit);
    score_.update_gates(6001 * kMs);
    ASSERT_EQ(state(kSecond), State::on);
    EXPECT_TRUE(is_told(kSecond));
}

// Reads that go on and wait, and of which no chain speaks, are those for which the kernel reads ahead.
TEST_F(ScoreTest, TheKernelReadsAheadWhereReadsAreLeftAlone) {
    const auto posts = [&] { return region_->class_posts[kSecond].load(); };
    score_.saw_read_ahead(kFirst, true, kMs);
    for (unsigned i = 1; i < Advice::kWindow; i++) score_.saw_read_ahead(kSecond, true, kMs);
    EXPECT_NE(posts() & shim::kNoReadAhead, 0u) << "a few say nothing";
    EXPECT_FALSE(score_.kernel_reads_ahead(kSecond));
    score_.saw_read_ahead(kSecond, true, kMs);
    EXPECT_EQ(posts() & shim::kNoReadAhead, 0u);
    EXPECT_TRUE(score_.kernel_reads_ahead(kSecond));
    EXPECT_TRUE(score_.kernel_reads_ahead(kFirst));
    score_.update_gates(Advice::kFirstPause);
    EXPECT_EQ(posts() & shim::kNoReadAhead, 0u);
    score_.update_gates(Advice::kFirstPause + kMs);
    EXPECT_NE(posts() & shim::kNoReadAhead, 0u);
    Score without_gates(spec_->module(), plan_, *region_, false);
    for (unsigned i = 0; i < Advice::kWindow; i++) without_gates.saw_read_ahead(kSecond, true, kMs);
    EXPECT_FALSE(without_gates.kernel_reads_ahead(kSecond));
}

// Reads of what a chain fetches say nothing of one that has had nothing fetched yet, and each that is posted costs.
TEST(Score, AProbeHearsOfWhatItFetchesOnceItHas) {
    const auto spec = compiled(R"(
app columns { files columns = "*.col"  files marks = "*.mrk" }
chain marks_of on open(columns) as c { prefetch marks.sibling(c, ".mrk") }
)");
    const SpecPlan plan = *plan_of(spec->module());
    const auto region = std::make_unique<shim::Region>();
    Score score(spec->module(), plan, *region, true);
    const std::uint32_t marks = plan.chains[0].targets.at(0);
    const auto hears = [&](std::uint32_t what) { return (region->class_posts[marks].load() & what) != 0; };
    EXPECT_TRUE(hears(shim::kPostReads));
    for (int i = 0; i < 16; i++) {
        EXPECT_TRUE(score.admit(0));
        score.cached(0);
    }
    score.update_gates(kMs);
    ASSERT_EQ(score.gate(0).state(), policy::Gate::State::off);
    EXPECT_FALSE(hears(shim::kPostReads | shim::kPostSlowReads));
    score.update_gates(3000 * kMs);
    ASSERT_EQ(score.gate(0).state(), policy::Gate::State::probing);
    EXPECT_FALSE(hears(shim::kPostReads));
    EXPECT_TRUE(hears(shim::kPostSlowReads)) << "of what it did not bring in time";
    score.fetched(0, 4096);
    EXPECT_TRUE(hears(shim::kPostReads));
}

TEST(Score, OnlyAChainThatFetchesIntoAClassSparesTheKernelItsReadAhead) {
    const auto spec = compiled(R"(
param UNASKED = 0
app columns { files columns = "*.col" { no_read_ahead }  files marks = "*.mrk" }
chain more on read(columns) as r { prefetch r.file at r.offset + r.length for 4096 }
chain marks_of on open(columns) as c { prefetch marks.sibling(c, ".mrk") }
chain unasked on read(marks) as r { when UNASKED == 1 { prefetch columns.sibling(r, ".col") } }
)");
    const SpecPlan plan = *plan_of(spec->module());
    const auto region = std::make_unique<shim::Region>();
    Score score(spec->module(), plan, *region, true);
    const std::uint32_t columns = plan.chains[0].source;
    EXPECT_FALSE(plan.chains[2].asks);
    EXPECT_NE(region->class_posts[columns].load() & shim::kNoReadAhead, 0u);
    for (int i = 0; i < 32; i++) {
        score.on_range(0, 0, RangeEnd::wasted);
        score.on_range(1, 0, RangeEnd::hit);
    }
    score.update_gates(kMs);
    ASSERT_EQ(score.gate(0).state(), policy::Gate::State::off);
    ASSERT_EQ(score.gate(1).state(), policy::Gate::State::on);
    EXPECT_EQ(region->class_posts[columns].load() & shim::kNoReadAhead, 0u);
    // Slow reads are looked at, so that programs take back what they have told the kernel of files that they have open.
    EXPECT_NE(region->class_posts[columns].load() & shim::kPostSlowReads, 0u);
}

// Where a chain on reads is closed and one on openings quiet, nobody would see that all reads wait.
TEST(Score, SlowReadsAreLookedAtWhereTheKernelReadsNothingAhead) {
    const auto spec = compiled(R"(
app columns { files columns = "*.col" { no_read_ahead } }
chain more on read(columns) as r { prefetch r.file at r.offset + r.length for 4096 }
chain head on open(columns) as c { when c.last_read >= 1MiB { prefetch c.file at 0 for 1MiB } }
)");
    const SpecPlan plan = *plan_of(spec->module());
    const auto region = std::make_unique<shim::Region>();
    Score score(spec->module(), plan, *region, true);
    const auto posts = [&] { return region->class_posts[0].load(); };
    for (int i = 0; i < 32; i++) score.on_range(0, 0, RangeEnd::wasted);
    for (int i = 0; i < 200; i++) score.ran(1, true, false);
    score.update_gates(kMs);
    ASSERT_EQ(score.gate(0).state(), policy::Gate::State::off);
    ASSERT_TRUE(score.is_quiet(1));
    EXPECT_NE(posts() & shim::kNoReadAhead, 0u);
    EXPECT_EQ(posts() & (shim::kPostReads | shim::kPostSlowReads | shim::kLetSleep),
              shim::kPostSlowReads | shim::kLetSleep);
    score.waited(0, kMs, 1 << 20);
    EXPECT_FALSE(score.is_quiet(1)) << "a read that waits has it listen again";
}

// A chain that remembers what it sees is not one that has something to ask for, nor one that has not.
TEST(Score, MarksSayNothingOfWhetherAChainIsQuiet) {
    const auto spec = compiled(kPointers);
    const SpecPlan plan = *plan_of(spec->module());
    const auto region = std::make_unique<shim::Region>();
    Score score(spec->module(), plan, *region, true);
    for (int i = 0; i < 200; i++) score.marked(0);
    EXPECT_FALSE(score.is_quiet(0));
    for (unsigned i = 0; i < Silence::kQuiet; i++) {
        EXPECT_FALSE(score.is_quiet(0)) << i;
        score.marked(0);
        score.ran(0, true, false);
    }
    EXPECT_TRUE(score.is_quiet(0));
    EXPECT_EQ(region->stats.chains[0].events, 200u + 2 * Silence::kQuiet);
    EXPECT_EQ(score.turns()[0], 0u);
}

// Its reads say whether what it has fetched was of use.
TEST(Score, ReadsOfTheClassThatAChainOnOpeningsFetchesIntoArePosted) {
    const auto spec = compiled(R"(
app columns { files columns = "*.col"  files marks = "*.mrk" }
chain head on open(columns) as c {
  prefetch marks.sibling(c, ".mrk")
  prefetch c.file at 0 for 64KiB
}
chain alone on open(marks) as m { prefetch m.file at 0 for 64KiB }
)");
    const SpecPlan plan = *plan_of(spec->module());
    const auto region = std::make_unique<shim::Region>();
    const Score score(spec->module(), plan, *region, true);
    ASSERT_EQ(plan.classes.size(), 2u);
    for (unsigned i = 0; i < 2; i++) EXPECT_NE(region->class_posts[i].load() & shim::kPostReads, 0u) << i;
    EXPECT_EQ(plan.chains[1].targets, std::vector<std::uint32_t>{plan.chains[1].source});
}

TEST(Advice, PausesGrowAndBeginAnew) {
    Advice advice;
    std::uint64_t now = 0;
    const auto pause = [&] {
        EXPECT_TRUE(advice.is_good(now));
        for (unsigned i = 0; i < Advice::kWindow; i++) advice.left_alone(now);
        const std::uint64_t before = now;
        while (!advice.is_good(now)) now += Advice::kFirstPause / 2;
        return now - before;
    };
    for (std::uint64_t wanted = Advice::kFirstPause; wanted < Advice::kLongestPause; wanted *= 2)
        EXPECT_EQ(pause(), wanted);
    EXPECT_EQ(pause(), Advice::kLongestPause);
    EXPECT_EQ(pause(), Advice::kLongestPause);
    for (unsigned i = 0; i < 3 * Advice::kWindow; i++) advice.needs_none(now);
    EXPECT_EQ(pause(), Advice::kFirstPause) << "it had been of use meanwhile";
}

TEST(Advice, WhatIsReadWhileTheKernelReadsAheadSaysNothing) {
    Advice advice;
    for (unsigned i = 0; i < Advice::kWindow; i++) advice.left_alone(0);
    EXPECT_FALSE(advice.is_good(1));
    for (unsigned i = 0; i < 2 * Advice::kWindow; i++) advice.left_alone(1);
    EXPECT_TRUE(advice.is_good(Advice::kFirstPause)) << "it is no longer for that";
    for (unsigned i = 1; i < Advice::kWindow; i++) advice.left_alone(Advice::kFirstPause);
    EXPECT_TRUE(advice.is_good(Advice::kFirstPause));
}

TEST(Advice, IsGoodWhereAQuarterOfTheReadsAreHelpedOrBeginElsewhere) {
    Advice advice;
    for (unsigned i = 0; i < 400; i++) i % 32 < 9 ? advice.needs_none(1) : advice.left_alone(1);
    EXPECT_TRUE(advice.is_good(1));
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
    for (int i = 0; i < 3; i++) score_.fetch_took(kMs);
    EXPECT_EQ(saved_by_a_read(1000, false), 0u) << "so few say too little";
    score_.fetch_took(kMs);
    EXPECT_EQ(saved_by_a_read(1000, false), kMs - 1000) << "once, for all that the read has touched";
    EXPECT_EQ(saved_by_a_read(1000, true), 0u);
    EXPECT_EQ(saved_by_a_read(2 * kMs, false), 0u);
    for (int i = 0; i < 4; i++) score_.program_read(kFirst, 4096, 3 * kMs, false);
    EXPECT_EQ(saved_by_a_read(0, false), kMs) << "the program waits longer, since so much is fetched";
    for (int i = 0; i < 20; i++) score_.program_read(kFirst, 4096, kMs / 10, true);
    EXPECT_EQ(saved_by_a_read(0, false), kMs) << "one that was helped does not count";
    for (int i = 0; i < 20; i++) score_.fetch_took(kMs / 4);
    EXPECT_NEAR(static_cast<double>(saved_by_a_read(0, false)), kMs / 4, kMs / 100);
    for (int i = 0; i < 4; i++) score_.fetch_took(100 * kMs);
    EXPECT_LT(saved_by_a_read(0, false), 10 * kMs) << "the disk was busy";
}

// Of a short run there are few: the first waits for what the file system reads of its own, some for our fetches.
TEST_F(ScoreTest, AFewLongWaitsDoNotMakeSavingsLarge) {
    for (const std::uint64_t us : {437, 108, 65, 57, 1481, 1154}) {
        score_.program_read(kFirst, 4096, us * 1000, false);
        score_.fetch_took(2 * kMs);
    }
    score_.expect_saving(kFirst, 0, false, false);
    end(kFirst, RangeEnd::hit);
    EXPECT_EQ(stats(kFirst).saved_ns, 65'000u) << "the lower quartile of what waited";
}

// The first read of a run waits for the server to start.
TEST_F(ScoreTest, OneLongWaitIsNotWhatEachHitSaves) {
    score_.program_read(kFirst, 4096, 100 * kMs, false);
    for (int i = 0; i < 90; i++) {
        score_.expect_saving(kFirst, 1000, false, false);
        end(kFirst, RangeEnd::hit);
    }
    EXPECT_EQ(stats(kFirst).hits, 90u);
    EXPECT_EQ(stats(kFirst).saved_ns, 0u);
}

TEST(WaitsTest, TellOfTheLatestOnly) {
    Waits waits;
    EXPECT_EQ(waits.lower_ns(), 0u);
    for (std::uint64_t us = 1; us <= Waits::kLatest; us++) waits.add(us);
    EXPECT_EQ(waits.lower_ns(), 8u);
    for (std::uint64_t i = 0; i < Waits::kLatest; i++) waits.add(1000 - i);
    EXPECT_EQ(waits.lower_ns(), 1000 - Waits::kLatest + 8);
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
    score_.waited(kFirst, 2 * kMs, 4096);
    score_.update_gates(40 * kMs);
    EXPECT_EQ(state(kFirst), State::off) << "a read from memory may look like that on a busy machine";
    EXPECT_EQ(region_->class_posts[kFirst].load(), shim::kPostOpens | shim::kPostSlowReads);
    score_.waited(kFirst, 41 * kMs, 4096);
    EXPECT_EQ(state(kFirst), State::probing);
    EXPECT_EQ(state(kSecond), State::off) << "its files are others";
}

// Of one that is on, what has come meanwhile may stand in a ring still.
TEST_F(ScoreTest, AReadThatWaitsEndsAPauseAndBeginsNone) {
    finds_in_memory(kSecond);
    score_.update_gates(kMs);
    ASSERT_EQ(state(kSecond), State::off);
    finds_in_memory(kFirst);
    score_.waited(kSecond, 41 * kMs, 4096);
    EXPECT_EQ(state(kSecond), State::probing);
    EXPECT_EQ(state(kFirst), State::on);
    score_.update_gates(42 * kMs);
    EXPECT_EQ(state(kFirst), State::off);
}

TEST(Score, OfWhichLengthsAreOfUseChainsSayThatAskAndSeeNoByte) {
    const auto spec = compiled(R"(
param UNASKED = 0
app several { files data = "*.ptr"  files pages = "*.pag" }
record Page { count: u32le  page: u32le[count max 64] }
chain blind on read(data) as r { prefetch r.file at r.offset + r.length for 4096 }
chain unasked on read(data) as r { when UNASKED == 1 { prefetch r.file at 0 for 4096 } }
chain sees on read(pages) as r { for p in r.record(Page).page max 64 { prefetch r.file at p * 4096 for 4096 } }
)");
    const SpecPlan plan = *plan_of(spec->module());
    const auto region = std::make_unique<shim::Region>();
    Score score(spec->module(), plan, *region, true);
    ASSERT_TRUE(plan.chains[0].blind && !plan.chains[2].blind);
    for (const std::uint32_t chain : {0u, 2u})
        for (unsigned i = 0; i < Lengths::kBelieved; i++) score.learn_length(chain, false, 5'000);
    EXPECT_EQ(region->least_read[plan.chains[0].source].load(), 5'001u) << "one that never asks needs no read";
    EXPECT_EQ(region->least_read[plan.chains[2].source].load(), 0u) << "it goes by what is read";
}

// Of a chain that sees no bytes: what it has nothing to say of wakes nobody, and is no reason to try it again.
TEST_F(ScoreTest, HowLongAReadHasToBeIsLearnt) {
    const auto least = [&](std::uint32_t file_class) { return region_->least_read[file_class].load(); };
    ASSERT_TRUE(plan_.chains[kFirst].blind);
    for (unsigned i = 0; i < Lengths::kBelieved; i++) {
        EXPECT_EQ(least(kFirst), 0u) << "a few say nothing";
        score_.learn_length(kFirst, false, i == 7 ? 100'000 : 5'000);
        score_.learn_length(kFirst, true, 1'000'000);
    }
    EXPECT_EQ(least(kFirst), 100'001u);
    EXPECT_EQ(least(kSecond), 0u);
    finds_in_memory(kFirst);
    score_.update_gates(kMs);
    ASSERT_EQ(state(kFirst), State::off);
    for (int i = 0; i < 100; i++) score_.waited(kFirst, 100 * kMs, 100'000);
    EXPECT_EQ(state(kFirst), State::off);
    score_.waited(kFirst, 40 * kMs, 100'001);
    EXPECT_EQ(state(kFirst), State::probing);
    score_.learn_length(kFirst, true, 100'000);
    EXPECT_EQ(least(kFirst), 0u) << "it goes by something else as well";
    for (unsigned i = 0; i < 2 * Lengths::kBelieved; i++) score_.learn_length(kFirst, false, 100'000);
    EXPECT_EQ(least(kFirst), 0u) << "and is not believed again";
}

// As one that goes by the place in the file: the first read of each is the one that matters.
TEST_F(ScoreTest, ALengthAtWhichAChainHasAskedIsNeverTooShort) {
    score_.learn_length(kFirst, true, 65'536);
    for (unsigned i = 0; i < 2 * Lengths::kBelieved; i++) score_.learn_length(kFirst, false, 65'536);
    EXPECT_EQ(region_->least_read[kFirst].load(), 0u);
    Score without_gates(spec_->module(), plan_, *region_, false);
    for (unsigned i = 0; i < Lengths::kBelieved; i++) without_gates.learn_length(kSecond, false, 5'000);
    EXPECT_EQ(region_->least_read[kSecond].load(), 0u) << "without gates all chains hear all";
}

TEST_F(ScoreTest, ManyReadsThatWaitNeedNoPause) {
    finds_in_memory(kFirst);
    score_.update_gates(kMs);
    ASSERT_EQ(state(kFirst), State::off);
    EXPECT_EQ(region_->class_posts[kFirst].load(), shim::kPostOpens);
    score_.update_gates(12 * kMs);
    EXPECT_EQ(region_->class_posts[kFirst].load(), shim::kPostOpens | shim::kPostSlowReads);
    for (int i = 0; i < 3; i++) score_.waited(kFirst, 12 * kMs, 4096);
    EXPECT_EQ(state(kFirst), State::off);
    score_.waited(kFirst, 12 * kMs, 4096);
    EXPECT_EQ(state(kFirst), State::probing);
}

// What is in memory, or cannot be read, would else look as if it were of use.
TEST_F(ScoreTest, WhatIsTriedAgainIsNoFetch) {
    for (int i = 0; i < 256; i++) EXPECT_TRUE(score_.admit(kFirst));
    score_.fetched(kFirst, 3 * kPiece);
    score_.take_back_fetched(kFirst, 3, 3 * kPiece);
    score_.update_gates(kMs);
    EXPECT_EQ(state(kFirst), State::off);
    EXPECT_EQ(stats(kFirst).fetches + stats(kFirst).fetched_bytes, 0u);
}

TEST_F(ScoreTest, WhatWasServedIsCountedHoweverLateItCame) {
    for (const RangeEnd how : {RangeEnd::hit, RangeEnd::late, RangeEnd::vain, RangeEnd::wasted}) {
        for (const bool served : {true, false}) {
            score_.expect_saving(kFirst, 1000, served, false);
            end(kFirst, how);
        }
    }
    EXPECT_EQ(stats(kFirst).served, 3u);
}

// As a long range is of which nothing can be begun.
TEST_F(ScoreTest, RequestsThatCannotBeBegunAreNoneInVain) {
    for (int i = 0; i < 300; i++) {
        for (int piece = 0; piece < 4; piece++) EXPECT_TRUE(score_.admit(kFirst));
        score_.refused(kFirst, 4);
    }
    score_.update_gates(kMs);
    EXPECT_EQ(state(kFirst), State::on);
    EXPECT_EQ(stats(kFirst).dropped, 300u);
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
