// The gate as pure maths: when it goes off, when it comes back, and what it costs in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/policy/gate.h"
#include "tests/support/properties.h"
#include "tests/support/soak.h"

namespace chainio::policy {
namespace {

using State = Gate::State;
using Reason = Gate::Reason;
constexpr std::uint64_t kMs = 1'000'000;

// One request that is fetched and turns out `good` or not.
void fetch_one(Gate& gate, bool good) {
    if (!gate.admit()) return;
    gate.fetched();
    good ? gate.useful() : gate.wasted();
}

// `count` fetches with a hit rate; returns after how many it was off, or `count`.
unsigned until_off(Gate& gate, double rate, unsigned count, std::mt19937_64& random) {
    std::bernoulli_distribution good(rate);
    for (unsigned i = 0; i < count; i++) {
        fetch_one(gate, good(random));
        gate.update(1);
        if (gate.state() == State::off) return i + 1;
    }
    return count;
}

void put_off(Gate& gate, std::uint64_t now) {
    for (int i = 0; i < 200 && gate.state() != State::off; i++) {
        fetch_one(gate, false);
        gate.update(now);
    }
    ASSERT_EQ(gate.state(), State::off);
}

TEST(Gate, IsOnAndStaysOnWhileItPays) {
    std::mt19937_64 random(tests::soak_seed());
    Gate gate;
    EXPECT_EQ(gate.state(), State::on);
    EXPECT_EQ(until_off(gate, 0.7, 100'000, random), 100'000u) << "twice the break-even";
    EXPECT_NEAR(gate.rate(), 0.7, 0.25);
}

TEST(Gate, StaysOnWhileItsLatestEventsPay) {
    Gate gate;
    for (int i = 0; i < 128; i++) fetch_one(gate, false);
    EXPECT_FALSE(gate.update(1, GateOptions{}.break_even));
    EXPECT_EQ(gate.state(), State::on);
    EXPECT_TRUE(gate.update(1, GateOptions{}.break_even - 0.01));
    EXPECT_EQ(gate.reason(), Reason::wasted);
}

TEST(Gate, GoesOffOverWarmDataWhateverItsLatestEventsHaveHadFetched) {
    Gate gate;
    gate.fetched();
    for (unsigned i = 0; i < GateOptions{}.use_window; i++) {
        ASSERT_TRUE(gate.admit());
        gate.in_memory();
    }
    EXPECT_TRUE(gate.would_be_of_no_use(1, 1));
    EXPECT_TRUE(gate.update(1, 1));
    EXPECT_EQ(gate.reason(), Reason::no_use);
}

// A probe ends when all that was fetched has an outcome.
TEST(Gate, DoesNotWaitForWhatIsTriedAgain) {
    Gate gate;
    std::uint64_t now = 1;
    put_off(gate, now);
    for (now += 1'000 * kMs; gate.state() == State::off; now += kMs) gate.update(now);
    ASSERT_EQ(gate.state(), State::probing);
    while (gate.admit()) {}
    for (unsigned i = 0; i < 3; i++) {
        gate.fetched();
        gate.fetched();
        gate.take_back_fetched(1);
        gate.useful();
    }
    EXPECT_TRUE(gate.update(now));
    EXPECT_EQ(gate.state(), State::on);
}

TEST(Gate, GoesOffAfterThirtyTwoFetchesThatNobodyReads) {
    Gate gate;
    for (unsigned i = 0; i < 31; i++) {
        fetch_one(gate, false);
        EXPECT_FALSE(gate.update(1)) << "too few outcomes to say: " << i + 1;
    }
    fetch_one(gate, false);
    EXPECT_TRUE(gate.update(1));
    EXPECT_EQ(gate.state(), State::off);
    EXPECT_EQ(gate.reason(), Reason::wasted);
    EXPECT_FALSE(gate.wants_events());
    EXPECT_FALSE(gate.admit());
}

TEST(Gate, GoesOffSoonWhenItLosesAndNotWhenItWins) {
    std::mt19937_64 random(tests::soak_seed());
    for (int turn = 0; turn < 50; turn++) {
        Gate loses, wins;
        EXPECT_LT(until_off(loses, 0.1, 10'000, random), 300u);
        EXPECT_EQ(until_off(wins, 0.6, 10'000, random), 10'000u);
    }
}

TEST(Gate, TheLineStandsTwoScattersBelowTheBreakEven) {
    // Of 128 outcomes, 0.35 - 2 * sqrt(0.35 * 0.65 / 128) = 0.2657: 35 hits keep it on, 34 do not.
    for (const int hits : {34, 35}) {
        Gate gate;
        for (int i = 0; i < 128; i++) fetch_one(gate, true);
        for (int i = 0; i < 128; i++) fetch_one(gate, i < hits);
        gate.update(1);
        EXPECT_EQ(gate.state(), hits == 35 ? State::on : State::off) << hits;
    }
}

TEST(Gate, AProgramThatWaitsIsLookedAtAgainSooner) {
    const auto off_for_want_of_use = [](Gate& gate) {
        while (gate.state() != State::off) {
            ASSERT_TRUE(gate.admit());
            gate.in_memory();
            gate.update(1000);
        }
    };
    Gate patient, woken, wasteful;
    off_for_want_of_use(patient);
    off_for_want_of_use(woken);
    woken.waited(1000 + 24'000'000);
    for (Gate* gate : {&patient, &woken}) gate->update(1000 + 24'000'000);
    EXPECT_EQ(patient.state(), State::off);
    EXPECT_EQ(woken.state(), State::off) << "not before half of the first pause";
    woken.waited(1000 + 25'000'000);
    for (Gate* gate : {&patient, &woken}) gate->update(1000 + 25'000'000);
    EXPECT_EQ(patient.state(), State::off);
    EXPECT_EQ(woken.state(), State::probing);
    for (unsigned i = 0; i < 64; i++) fetch_one(wasteful, false);
    wasteful.update(1000);
    ASSERT_EQ(wasteful.reason(), Gate::Reason::wasted);
    for (unsigned i = 0; i < 100; i++) wasteful.waited(1000 + 13'000'000);
    EXPECT_EQ(wasteful.hears_waits(1000 + 13'000'000), Gate::Hears::nothing);
    wasteful.update(1000 + 13'000'000);
    EXPECT_EQ(wasteful.state(), State::off) << "what fetches in vain does not fetch better now";
}

TEST(Gate, OfEachPauseAQuarterIsTheLeast) {
    Gate gate;
    std::uint64_t now = 0;
    fetch_one(gate, true);
    for (const std::uint64_t pause : {50, 100, 200, 400, 800, 1600, 2000, 2000}) {
        while (gate.state() != State::off) {
            if (gate.admit()) gate.in_memory();
            gate.update(now += kMs);
        }
        EXPECT_EQ(gate.reason(), Reason::no_use);
        const std::uint64_t least = std::max<std::uint64_t>(pause * kMs / 4, 10 * kMs);
        EXPECT_NE(gate.hears_waits(now + least - 1), Gate::Hears::nothing);
        gate.waited(now + least - 1);
        EXPECT_FALSE(gate.update(now + least - 1)) << pause;
        gate.waited(now + least);
        EXPECT_TRUE(gate.update(now += least)) << pause;
        ASSERT_EQ(gate.state(), State::probing);
    }
}

TEST(Gate, ManyWaitsNeedNoPauseAndMoreOfThemEachTimeThatTheyWereInVain) {
    Gate gate;
    std::uint64_t now = 0;
    std::vector<unsigned> each_time{4, 8, 16, 32, 64, 128, 256, 512};
    each_time.resize(40, 1024);  // more times than a number can be doubled
    for (const unsigned wanted : each_time) {
        for (int i = 0; i < 16; i++) {
            ASSERT_TRUE(gate.admit());
            gate.in_memory();
        }
        ASSERT_TRUE(gate.update(now));
        ASSERT_EQ(gate.state(), State::off);
        for (unsigned i = 0; i < wanted; i++) gate.waited(now + 10 * kMs - 1);
        EXPECT_FALSE(gate.update(now + 10 * kMs - 1)) << "who has just gone off has just seen that all is in memory";
        now += 10 * kMs;
        EXPECT_EQ(gate.hears_waits(now), wanted <= 16 ? Gate::Hears::aloud : Gate::Hears::quietly) << wanted;
        for (unsigned i = 0; i + 1 < wanted; i++) gate.waited(now);
        EXPECT_FALSE(gate.update(now)) << wanted;
        gate.waited(now);
        EXPECT_TRUE(gate.update(now)) << wanted;
        ASSERT_EQ(gate.state(), State::probing);
    }
    for (int i = 0; i < 16; i++) fetch_one(gate, true);
    ASSERT_TRUE(gate.update(now));
    ASSERT_EQ(gate.state(), State::on);
    while (gate.state() != State::off) {
        ASSERT_TRUE(gate.admit());
        gate.in_memory();
        gate.update(now);
    }
    for (unsigned i = 0; i < 4; i++) gate.waited(now + 10 * kMs);
    EXPECT_TRUE(gate.update(now + 10 * kMs)) << "it was of use meanwhile";
}

TEST(Gate, WhatIsInMemoryAlreadyIsOfNoUse) {
    Gate gate;
    for (unsigned i = 0; i < 100; i++) {
        EXPECT_TRUE(gate.admit());
        EXPECT_FALSE(gate.update(1)) << "nobody knows yet";
    }
    for (unsigned i = 0; i < 15; i++) {
        gate.in_memory();
        EXPECT_FALSE(gate.update(1));
    }
    gate.in_memory();
    EXPECT_TRUE(gate.update(1));
    EXPECT_EQ(gate.reason(), Reason::no_use);

    // One that has had something fetched is given longer.
    Gate known;
    fetch_one(known, true);
    unsigned requests = 1;
    for (; known.state() == State::on; requests++) {
        EXPECT_TRUE(known.admit());
        known.update(1);
    }
    EXPECT_EQ(requests, 256u) << "one of them is too few";

    // Three fetches in 256 requests are enough; one page that many requests want is no request more.
    Gate useful;
    for (unsigned i = 0; i < 10'000; i++) {
        ASSERT_TRUE(useful.admit());
        if (i % 85 == 0) {
            useful.fetched();
            useful.useful();
        }
        if (i % 7 == 0) {
            ASSERT_TRUE(useful.admit());
            useful.take_back();
        }
        EXPECT_FALSE(useful.update(1)) << i;
    }
}

TEST(Gate, ProbesAfterAPauseThatGrows) {
    Gate gate;
    std::uint64_t now = 0, pause = 50 * kMs;
    for (int turn = 0; turn < 10; turn++) {
        put_off(gate, now);
        EXPECT_FALSE(gate.update(now + pause - 1));
        EXPECT_EQ(gate.state(), State::off);
        EXPECT_TRUE(gate.update(now + pause));
        EXPECT_EQ(gate.state(), State::probing);
        EXPECT_TRUE(gate.wants_events());
        now += pause;
        pause = std::min(2 * pause, std::uint64_t{2'000} * kMs);
        // The next turn's fetches are the probe's.
    }
    EXPECT_EQ(gate.pause_ns(), 2'000 * kMs);
}

TEST(Gate, AProbeThatPaysBringsItBack) {
    Gate gate;
    put_off(gate, 0);
    gate.update(50 * kMs);
    ASSERT_EQ(gate.state(), State::probing);
    for (int i = 0; i < 15; i++) {
        fetch_one(gate, true);
        EXPECT_FALSE(gate.update(51 * kMs));
    }
    fetch_one(gate, true);
    EXPECT_TRUE(gate.update(51 * kMs));
    EXPECT_EQ(gate.state(), State::on);
    EXPECT_EQ(gate.pause_ns(), 50 * kMs) << "the pause is the shortest again";
}

TEST(Gate, WhatAProbeHasFetchedIsNoUseThatItIsOfLater) {
    Gate gate;
    put_off(gate, 0);
    gate.update(50 * kMs);
    for (int i = 0; i < 16; i++) fetch_one(gate, true);
    ASSERT_TRUE(gate.update(51 * kMs));
    ASSERT_EQ(gate.state(), State::on);
    for (int i = 0; i < 255; i++) {
        ASSERT_TRUE(gate.admit());
        gate.in_memory();
        EXPECT_FALSE(gate.update(52 * kMs)) << i;
    }
    ASSERT_TRUE(gate.admit());
    EXPECT_TRUE(gate.update(52 * kMs));
    EXPECT_EQ(gate.state(), State::off);
    EXPECT_EQ(gate.reason(), Reason::no_use);
}

TEST(Gate, AProbeIsBounded) {
    Gate gate;
    put_off(gate, 0);
    gate.update(50 * kMs);
    EXPECT_TRUE(gate.admit());
    gate.fetched();
    for (int i = 0; i < 63; i++) EXPECT_TRUE(gate.admit());
    EXPECT_FALSE(gate.admit()) << "no more than 64 requests until the verdict";
    EXPECT_FALSE(gate.update(51 * kMs)) << "what was fetched may still be read";
    gate.useful();
    EXPECT_TRUE(gate.update(52 * kMs));
    EXPECT_EQ(gate.state(), State::on);
}

TEST(Gate, WhatWasNeverFetchedIsSoonKnownAndSeldomAskedFor) {
    Gate gate;
    std::uint64_t now = 0;
    for (const std::uint64_t pause : {50, 200, 800, 2000, 2000}) {
        for (int i = 0; i < 16; i++) {
            EXPECT_FALSE(gate.update(now));
            EXPECT_TRUE(gate.admit());
            gate.in_memory();
        }
        EXPECT_TRUE(gate.update(now));
        EXPECT_EQ(gate.reason(), Reason::no_use);
        EXPECT_FALSE(gate.update(now + pause * kMs - 1));
        EXPECT_TRUE(gate.update(now += pause * kMs));
        EXPECT_EQ(gate.state(), State::probing);
    }
    // It has something: as patient as ever.
    fetch_one(gate, true);
    for (int i = 0; i < 40; i++) EXPECT_TRUE(gate.admit());
    gate.update(now);
    EXPECT_NE(gate.state(), State::off);
}

TEST(Gate, AProbeWhoseFetchesNobodyReadsEndsByTime) {
    Gate gate;
    put_off(gate, 0);
    gate.update(50 * kMs);
    for (int i = 0; i < 10; i++) {
        EXPECT_TRUE(gate.admit());
        gate.fetched();
    }
    EXPECT_FALSE(gate.update(60 * kMs));
    EXPECT_FALSE(gate.update(1'059 * kMs));
    EXPECT_TRUE(gate.update(1'061 * kMs));
    EXPECT_EQ(gate.state(), State::off);
    EXPECT_EQ(gate.reason(), Reason::wasted);
}

TEST(Gate, WithoutEventsAProbeWaits) {
    Gate gate;
    put_off(gate, 0);
    gate.update(50 * kMs);
    for (const std::uint64_t now : {100'000u, 200'000u, 300'000u}) EXPECT_FALSE(gate.update(now * kMs));
    EXPECT_EQ(gate.state(), State::probing);
}

TEST(Gate, AProbeDoesNotBeginWithWhatWasWantedAlready) {
    Gate gate;
    put_off(gate, 0);
    gate.update(50 * kMs);
    ASSERT_TRUE(gate.admit());
    gate.take_back();
    for (const std::uint64_t now : {100'000u, 200'000u, 300'000u}) EXPECT_FALSE(gate.update(now * kMs));
    EXPECT_EQ(gate.state(), State::probing);
}

TEST(Gate, AProbesTimeDoesNotRunFromWhatWasTakenBackLater) {
    Gate gate;
    put_off(gate, 0);
    gate.update(50 * kMs);
    ASSERT_TRUE(gate.admit());
    EXPECT_FALSE(gate.update(60 * kMs));
    gate.take_back();
    EXPECT_FALSE(gate.update(70 * kMs));
    ASSERT_TRUE(gate.admit());
    gate.fetched();
    for (const std::uint64_t now : {1'600u, 2'000u, 2'500u}) EXPECT_FALSE(gate.update(now * kMs));
    EXPECT_EQ(gate.state(), State::probing);
    EXPECT_TRUE(gate.update(2'600 * kMs));  // a second after the first request that was one
    EXPECT_EQ(gate.state(), State::off);
}

TEST(Gate, WhateverHappensItsStateIsOneOfThreeAndItsRateAShare) {
    EXPECT_TRUE(rc::check([] {
        Gate gate;
        std::uint64_t now = 0;
        const auto steps = *rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(0u, 6u));
        for (const unsigned step : steps) {
            const State before = gate.state();
            bool changed = false;
            switch (step) {
                case 0: RC_ASSERT(gate.admit() == false || before != State::off); break;
                case 1: gate.fetched(); break;
                case 2: gate.useful(); break;
                case 3: gate.wasted(); break;
                case 4: gate.take_back(); break;
                default:
                    now += 20 * kMs;
                    changed = gate.update(now);
                    break;
            }
            RC_ASSERT(changed == (gate.state() != before));
            RC_ASSERT(gate.rate() >= 0 && gate.rate() <= 1);
            RC_ASSERT(gate.pause_ns() >= 50 * kMs && gate.pause_ns() <= 2'000 * kMs);
        }
    }));
}

// The server comes too late: on a busy machine for many requests in a row.
TEST(Gate, StaysOnWhileRequestsComeTooLateForAWhile) {
    for (const bool told : {false, true}) {
        for (const bool ever_fetched : {false, true}) {
            Gate gate;
            if (ever_fetched) fetch_one(gate, true);
            unsigned late = 0;
            for (; gate.state() == State::on && late < 10'000; late++) {
                ASSERT_TRUE(gate.admit());
                if (told) gate.in_memory();
                gate.too_late(told);
                gate.update(1);
            }
            EXPECT_EQ(late, ever_fetched ? 1020u : 256u) << "but not for ever";
            EXPECT_EQ(gate.reason(), Reason::no_use);
        }
    }
}

TEST(Gate, WhatIsInMemoryCountsBesideWhatCameTooLate) {
    Gate gate;
    for (unsigned i = 0; i < 15; i++) {
        ASSERT_TRUE(gate.admit());
        gate.in_memory();
        ASSERT_TRUE(gate.admit());
        gate.too_late(false);
        EXPECT_FALSE(gate.would_be_of_no_use(1));
        EXPECT_FALSE(gate.update(1)) << i;
    }
    ASSERT_TRUE(gate.admit());
    gate.in_memory();
    EXPECT_TRUE(gate.would_be_of_no_use(1));
    EXPECT_EQ(gate.state(), State::on) << "it was only asked";
    EXPECT_TRUE(gate.update(1));
}

// A probe whose requests come too late gets others.
TEST(Gate, AProbeGoesOnWhenItsRequestsComeTooLate) {
    Gate gate;
    std::uint64_t now = 1;
    put_off(gate, now);
    for (now += 1'000 * kMs; gate.state() == State::off; now += kMs) gate.update(now);
    for (unsigned i = 0; i < 64; i++) {
        ASSERT_TRUE(gate.admit());
        gate.in_memory();
    }
    EXPECT_FALSE(gate.admit());
    for (unsigned i = 0; i < 64; i++) gate.too_late(true);
    EXPECT_FALSE(gate.update(now));
    for (unsigned i = 0; i < 20; i++) fetch_one(gate, true);
    EXPECT_TRUE(gate.update(now));
    EXPECT_EQ(gate.state(), State::on);
}

// Of what was told before the probe began nothing is known any more.
TEST(Gate, WhatTurnsOutDuringAProbeToHaveComeTooLateBeforeSaysNothingAboutIt) {
    Gate gate;
    for (unsigned i = 0; i < GateOptions{}.least_in_memory; i++) {
        ASSERT_TRUE(gate.admit());
        gate.in_memory();
    }
    ASSERT_TRUE(gate.update(kMs));
    ASSERT_EQ(gate.state(), State::off);
    ASSERT_TRUE(gate.update(3000 * kMs));
    ASSERT_EQ(gate.state(), State::probing);
    for (int i = 0; i < 2; i++) ASSERT_TRUE(gate.admit());
    gate.too_late(true);
    EXPECT_FALSE(gate.update(3001 * kMs));
    EXPECT_EQ(gate.state(), State::probing);
}

TEST(Gate, OfWhatUseItWasLongAgoSaysNothing) {
    Gate gate;
    for (unsigned i = 0; i < GateOptions{}.use_window; i++) fetch_one(gate, true);
    ASSERT_FALSE(gate.update(kMs));
    for (unsigned i = 0; i < GateOptions{}.use_window; i++) {
        ASSERT_TRUE(gate.admit());
        gate.in_memory();
    }
    EXPECT_TRUE(gate.update(2 * kMs));
    EXPECT_EQ(gate.reason(), Reason::no_use);
}

}  // namespace
}  // namespace chainio::policy
