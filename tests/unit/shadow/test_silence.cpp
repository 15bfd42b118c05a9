// How long a chain that asks for nothing goes on hearing of what a program does.
#include <gtest/gtest.h>

#include "runtime/shadow/silence.h"

namespace chainio::shadow::test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// At how many events with nothing to ask for it begins to hear otherwise.
unsigned until_otherwise(Silence& silence, std::uint64_t now) {
    const Listens before = silence.hears();
    unsigned events = 0;
    while (silence.hears() == before && events < 10'000) {
        silence.nothing(now);
        events++;
    }
    return events;
}

TEST(Silence, IsQuickWhereNothingWasEverAskedForAndPatientElse) {
    Silence never(true), before(true);
    before.asked();
    EXPECT_EQ(until_otherwise(never, 0), Silence::kQuiet);
    EXPECT_EQ(until_otherwise(before, 0), Silence::kQuietAgain);
    for (Silence* silence : {&never, &before}) EXPECT_EQ(silence->hears(), Listens::to_slow_reads);
    before.useful();
    EXPECT_EQ(before.hears(), Listens::to_all) << "what it has fetched is read";
    never.asked();
    EXPECT_EQ(never.hears(), Listens::to_all);
}

TEST(Silence, PausesGrowAndEnd) {
    Silence silence(true);
    std::uint64_t now = 0;
    until_otherwise(silence, now);
    for (const auto& [events, pause] :
         {std::pair{32u, 10u}, {64u, 20u}, {128u, 40u}, {256u, 80u}, {256u, 160u}, {256u, 160u}}) {
        EXPECT_EQ(until_otherwise(silence, now), events);
        EXPECT_EQ(silence.hears(), Listens::to_nothing);
        silence.nothing(now);  // others may still be told of what it shares a class with
        silence.pass(now + pause * kMs - 1);
        EXPECT_EQ(silence.hears(), Listens::to_nothing) << pause;
        silence.pass(now += pause * kMs);
        EXPECT_EQ(silence.hears(), Listens::to_slow_reads);
    }
    until_otherwise(silence, now);
    ASSERT_EQ(silence.hears(), Listens::to_nothing);
    silence.asked();
    EXPECT_EQ(silence.hears(), Listens::to_all) << "at once, in a pause too";
}

TEST(Silence, OpeningsAreNeverPassedOver) {
    Silence silence(false);
    EXPECT_EQ(until_otherwise(silence, 0), Silence::kQuiet);
    EXPECT_EQ(until_otherwise(silence, 0), 10'000u);
    EXPECT_EQ(silence.hears(), Listens::to_slow_reads);
}

}  // namespace
}  // namespace chainio::shadow::test
