// How long a chain that asks for nothing goes on hearing of what a program does.
#include <gtest/gtest.h>

#include "runtime/shadow/silence.h"

namespace chainio::shadow::test {
namespace {

// At how many events with nothing to ask for it begins to hear otherwise.
unsigned until_otherwise(Silence& silence) {
    const Listens before = silence.hears();
    unsigned events = 0;
    while (silence.hears() == before && events < 10'000) {
        silence.nothing();
        events++;
    }
    return events;
}

TEST(Silence, IsQuickWhereNothingWasEverAskedForAndPatientElse) {
    Silence never(true), before(true);
    before.asked();
    EXPECT_EQ(until_otherwise(never), Silence::kQuiet);
    EXPECT_EQ(until_otherwise(before), Silence::kQuietAgain);
    for (Silence* silence : {&never, &before}) {
        EXPECT_EQ(silence->hears(), Listens::to_slow_reads);
        EXPECT_EQ(until_otherwise(*silence), Silence::kInVain);
        EXPECT_EQ(silence->hears(), Listens::in_its_sleep);
        EXPECT_EQ(until_otherwise(*silence), 10'000u) << "for good";
    }
    before.useful();
    EXPECT_EQ(before.hears(), Listens::to_all) << "what it has fetched is read";
    never.asked();
    EXPECT_EQ(never.hears(), Listens::to_all);
}

// Of those that go by openings, and by the places of reads alone.
TEST(Silence, WhatIsInMemoryIsNothingToChainsThatSeeNoByte) {
    Silence blind(false), seeing(true);
    for (Silence* silence : {&blind, &seeing}) {
        for (unsigned i = 0; i < Silence::kQuiet; i++) {
            silence->asked();
            silence->in_memory();
        }
    }
    EXPECT_EQ(blind.hears(), Listens::to_slow_reads);
    EXPECT_EQ(seeing.hears(), Listens::to_all);
    blind.asked();
    EXPECT_EQ(blind.hears(), Listens::to_slow_reads) << "it may be in memory, too";
    blind.useful();
    EXPECT_EQ(blind.hears(), Listens::to_all) << "it was not";
    EXPECT_EQ(until_otherwise(blind), Silence::kQuiet) << "though it has asked for something before";
    blind.program_waited();
    EXPECT_EQ(blind.hears(), Listens::to_all)
        << "a read that it is told of when it has ended does not say what was asked";
}

// RocksDB's chains find nothing to say of most that it waits for.
TEST(Silence, SlowReadsThatBringNothingEndItLessAndLessOften) {
    Silence blind(false);
    const auto waits_until_aloud = [&] {
        unsigned waits = 0;
        for (; blind.hears() != Listens::to_all && waits < 1000; waits++) blind.program_waited();
        return waits;
    };
    EXPECT_EQ(until_otherwise(blind), Silence::kQuiet);
    struct {
        unsigned waits, events;
    } const wanted[] = {{1, 64}, {2, 32}, {4, 16}, {8, 8}, {16, 8}, {32, 8}, {32, 8}};
    for (const auto& [waits, events] : wanted) {
        EXPECT_EQ(waits_until_aloud(), waits);
        blind.program_waited();  // it hears of this one
        EXPECT_EQ(until_otherwise(blind), events);
    }
    EXPECT_EQ(waits_until_aloud(), 32u);
    blind.useful();
    EXPECT_EQ(until_otherwise(blind), Silence::kQuiet);
    EXPECT_EQ(waits_until_aloud(), 1u);
}

// It asks for what a page names: that this is in memory is no reason to see no more pages.
TEST(Silence, WhatIsInMemoryIsSomethingToChainsThatSeeBytes) {
    Silence silence(true);
    for (unsigned i = 0; i < 2 * Silence::kQuietAgain; i++) silence.in_memory();
    EXPECT_EQ(silence.hears(), Listens::to_all);
}

// A class of files that two chains run on, and a third fetches from.
TEST(Silence, NobodyIsWokenForChainsThatHearInTheirSleep) {
    const auto chain = [](ir::ChainMode mode) { return ChainPlan{.mode = mode, .targets = {0}}; };
    SpecPlan plan;
    plan.chains = {chain(ir::ChainMode::on_read), chain(ir::ChainMode::on_read), chain(ir::ChainMode::on_open)};
    plan.classes = {0};
    const auto posts = [&](Listens first, Listens second, Listens opens) {
        return posts_of(plan, {first, second, opens}).classes[0];
    };
    using enum Listens;
    const std::uint32_t slow = shim::kPostOpens | shim::kPostSlowReads;
    EXPECT_EQ(posts(in_its_sleep, to_nothing, to_nothing), slow | shim::kLetSleep);
    EXPECT_EQ(posts(in_its_sleep, in_its_sleep, to_events), slow | shim::kLetSleep | shim::kWakeOpens);
    EXPECT_EQ(posts(in_its_sleep, to_slow_reads, to_nothing), slow);
    EXPECT_EQ(posts(in_its_sleep, to_events, to_nothing), slow | shim::kPostReads);
    EXPECT_EQ(posts(in_its_sleep, to_nothing, to_all), slow | shim::kPostReads | shim::kWakeOpens);
    EXPECT_EQ(posts(to_nothing, to_nothing, to_nothing), shim::kPostOpens);
}

}  // namespace
}  // namespace chainio::shadow::test
