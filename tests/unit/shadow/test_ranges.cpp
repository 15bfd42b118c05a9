// Ranges against a model that keeps one list, over random fetches, reads and time.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "runtime/shadow/ranges.h"
#include "tests/support/properties.h"

namespace chainio::shadow::test {
namespace {

struct Ends final : RangeSink {
    std::map<std::pair<std::uint32_t, RangeEnd>, unsigned> count;
    void on_range(std::uint32_t chain, std::uint64_t, RangeEnd end) override { count[{chain, end}]++; }
    unsigned of(RangeEnd end, std::uint32_t chain = 0) const {
        const auto found = count.find({chain, end});
        return found == count.end() ? 0 : found->second;
    }
};

RangeLimits small() {
    RangeLimits limits;
    limits.bytes = 64 * kPageBytes;
    limits.ranges = 24;
    limits.too_old_ns = 1000;
    limits.may_yield_ns = 100;
    limits.overdue_events = 3;
    limits.overdue_ns = 50;
    return limits;
}

TEST(Ranges, AReadOfAnyPageDecides) {
    Ends ends;
    Ranges ranges(small(), 1, ends);
    const auto a = ranges.begin(7, 0, 3 * kPageBytes, 0, 0, 0);
    const auto b = ranges.begin(7, 10 * kPageBytes, kPageBytes, 0, 0, 0);
    ASSERT_TRUE(a != kNoRange && b != kNoRange);
    ranges.arrived(a, 1);
    ranges.arrived(b, 1);
    EXPECT_FALSE(ranges.read(8, 0, 100, {})) << "another file";
    EXPECT_FALSE(ranges.read(7, 3 * kPageBytes, 7 * kPageBytes, {})) << "between the two";
    EXPECT_TRUE(ranges.read(7, 2 * kPageBytes + 5, 1, {}));
    EXPECT_EQ(ends.of(RangeEnd::hit), 1u);
    EXPECT_FALSE(ranges.read(7, 0, 1, {})) << "a range counts once";
    EXPECT_TRUE(ranges.read(7, 9 * kPageBytes, 2 * kPageBytes, {.waited = true}));
    EXPECT_EQ(ends.of(RangeEnd::late), 1u);
    EXPECT_EQ(ranges.count(), 0u);
    EXPECT_EQ(ranges.bytes(), 0u);
    EXPECT_EQ(ranges.pages(), 0u);
}

// A read of its begin says nothing of its end, whether that has come or not.
TEST(Ranges, WhatIsFetchedInOneGoAndIsLongIsSeveral) {
    Ends ends;
    RangeLimits limits = small();
    limits.bytes = 10 * kPiece;
    Ranges ranges(limits, 1, ends);
    const auto all = ranges.begin(7, 0, 4 * kPiece - 5, 0, 0, 0);
    ASSERT_NE(all, kNoRange);
    EXPECT_EQ(ranges.count(), 4u);
    EXPECT_TRUE(ranges.read(7, kPiece, 1, {.waited = true, .began_ns = 10}));
    EXPECT_EQ(ends.of(RangeEnd::late), 1u);
    EXPECT_EQ(ranges.arrived(all, 20), 20u);
    EXPECT_EQ(ranges.count(), 3u);
    EXPECT_TRUE(ranges.read(7, 0, 1, {}));
    EXPECT_EQ(ends.of(RangeEnd::hit), 1u);
    EXPECT_EQ(ranges.bytes(), 2 * kPiece) << "unread as ever";
    ranges.age({0}, 20 + limits.too_old_ns);
    EXPECT_EQ(ends.of(RangeEnd::wasted), 2u);
    EXPECT_EQ(ranges.count(), 0u);
    ranges.failed(ranges.begin(7, 0, 2 * kPiece, 0, 0, 0));
    EXPECT_EQ(ends.of(RangeEnd::failed), 2u);
    EXPECT_EQ(ranges.count() + ranges.bytes(), 0u);
    limits.ranges = 3;
    Ranges few(limits, 1, ends);
    EXPECT_EQ(few.begin(7, 0, 4 * kPiece, 0, 0, 0), kNoRange);
    EXPECT_EQ(few.count(), 0u);
    EXPECT_NE(few.begin(7, 0, 3 * kPiece, 0, 0, 0), kNoRange);
}

TEST(Ranges, TheOldestYieldsWhoseverItIs) {
    for (const std::uint32_t oldest : {0u, 1u}) {
        Ends ends;
        Ranges ranges(small(), 2, ends);
        ranges.arrived(ranges.begin(7, 0, 32 * kPageBytes, oldest, 0, 0), 1);
        ranges.arrived(ranges.begin(8, 0, 32 * kPageBytes, 1 - oldest, 0, 0), 2);
        EXPECT_NE(ranges.begin(9, 0, kPageBytes, 0, 0, 500), kNoRange);
        EXPECT_EQ(ends.of(RangeEnd::wasted, oldest), 1u);
        EXPECT_EQ(ends.of(RangeEnd::wasted, 1 - oldest), 0u);
    }
}

TEST(Ranges, WhatIsUnderWayWhenTheProgramComesIsNotFetchedAgain) {
    Ends ends;
    Ranges ranges(small(), 1, ends);
    const auto a = ranges.begin(7, 0, kPageBytes, 0, 0, 0);
    EXPECT_TRUE(ranges.under_way(7, 0, 1));
    EXPECT_TRUE(ranges.read(7, 0, kPageBytes, {.waited = true}));
    EXPECT_EQ(ends.of(RangeEnd::late), 1u);
    EXPECT_EQ(ranges.known(7, 0, kPageBytes), Ranges::Known::all);
    EXPECT_TRUE(ranges.under_way(7, 0, 1)) << "it has not come by that";
    ranges.arrived(a, 1);
    EXPECT_EQ(ranges.known(7, 0, kPageBytes), Ranges::Known::none);
    EXPECT_EQ(ends.count.size(), 1u) << "late, and nothing else";
}

// The program came at 400 and has waited for so long.
TEST(Ranges, AFetchThatHadHardlyBegunShortensNoWait) {
    for (const auto& [waited, expected] : {std::pair{1200u, RangeEnd::late}, std::pair{1203u, RangeEnd::vain}}) {
        for (const bool arrives : {false, true}) {
            Ends ends;
            Ranges ranges(small(), 1, ends);
            const auto a = ranges.begin(7, 0, kPageBytes, 0, 0, 0);
            if (arrives) ranges.arrived(a, 900);
            EXPECT_TRUE(ranges.read(7, 0, 1, {.waited = true, .began_ns = 400, .ns = waited}));
            EXPECT_EQ(ends.of(expected), 1u) << waited << ", " << arrives;
        }
    }
    Ends ends;
    Ranges ranges(small(), 1, ends);
    ranges.begin(7, 0, kPageBytes, 0, 0, 500);
    EXPECT_TRUE(ranges.read(7, 0, 1, {.waited = true, .began_ns = 400, .ns = 1000}));
    EXPECT_EQ(ends.of(RangeEnd::vain), 1u) << "it began behind the read";
}

// What one read wants may come in parts that are fetched at once.
TEST(Ranges, PartsOfAReadThatComeTogetherShortenItWheneverTheyBegan) {
    const Took took{.waited = true, .began_ns = 400, .ns = 1000};
    for (const auto& [pages, expected] : {std::pair{4u, RangeEnd::late}, std::pair{5u, RangeEnd::vain}}) {
        Ends ends;
        Ranges ranges(small(), 1, ends);
        ranges.begin(7, 0, kPageBytes, 0, 0, 500);
        ranges.begin(7, kPageBytes, kPageBytes, 0, 0, 500);
        EXPECT_TRUE(ranges.read(7, 0, pages * kPageBytes, took));
        EXPECT_EQ(ends.of(expected), 2u) << pages;
    }
    Ends ends;
    Ranges ranges(small(), 1, ends);
    ranges.begin(7, 0, 4 * kPageBytes, 0, 0, 500);
    EXPECT_TRUE(ranges.read(7, 0, 4 * kPageBytes, took));
    EXPECT_EQ(ends.of(RangeEnd::vain), 1u) << "one part is no better than the read";
}

TEST(Ranges, AReadThatComesLateTellsHowLongTheFetchTook) {
    Ends ends;
    Ranges ranges(small(), 1, ends);
    const auto told = [&](std::uint64_t page, const Took& took, bool arrived) {
        const auto range = ranges.begin(7, page * kPageBytes, 1, 0, 0, 100);
        if (arrived) ranges.arrived(range, 110);
        return ranges.read(7, page * kPageBytes, 1, took).fetch_ns;
    };
    for (const bool arrived : {false, true}) {
        EXPECT_EQ(told(0 + arrived, {.waited = true, .began_ns = 400, .ns = 600}, arrived), 900u);
        EXPECT_EQ(told(2 + arrived, {.waited = false, .began_ns = 400, .ns = 600}, arrived), 0u);
        EXPECT_EQ(told(4 + arrived, {.waited = true, .began_ns = 50, .ns = 600}, arrived), 600u) << "it waited itself";
        EXPECT_EQ(told(6 + arrived, {.waited = true, .began_ns = 4000, .ns = 600}, arrived), 0u) << "for other pages";
        EXPECT_EQ(told(8 + arrived, {.waited = true}, arrived), 0u) << "nobody knows when";
    }
    ranges.begin(7, 20 * kPageBytes, kPageBytes, 0, 0, 100);
    ranges.begin(7, 21 * kPageBytes, kPageBytes, 0, 0, 300);
    const Took both{.waited = true, .began_ns = 400, .ns = 600};
    EXPECT_EQ(ranges.read(7, 20 * kPageBytes, 2 * kPageBytes, both).fetch_ns, 900u) << "of several, the first";
}

TEST(Ranges, OverdueCountsOnceAndIsRedeemed) {
    Ends ends;
    Ranges ranges(small(), 1, ends);
    const auto a = ranges.begin(7, 0, kPageBytes, 0, 10, 0);
    ranges.arrived(a, 10);
    ranges.age({12}, 1000 - 1);
    EXPECT_EQ(ends.of(RangeEnd::overdue), 0u) << "the chain has had too few events";
    ranges.age({13}, 59);
    EXPECT_EQ(ends.of(RangeEnd::overdue), 0u) << "too young";
    ranges.age({13}, 60);
    ranges.age({14}, 70);
    EXPECT_EQ(ends.of(RangeEnd::overdue), 1u);
    EXPECT_TRUE(ranges.read(7, 0, 1, {}));
    EXPECT_EQ(ends.of(RangeEnd::redeemed), 1u);
    EXPECT_EQ(ends.of(RangeEnd::hit), 1u);
}

TEST(Ranges, BehindOneThatIsReadTheNextIsOverdue) {
    Ends ends;
    Ranges ranges(small(), 1, ends);
    for (std::uint64_t page = 0; page < 3; page++) ranges.arrived(ranges.begin(7, page * kPageBytes, 1, 0, 10, 0), 10);
    EXPECT_TRUE(ranges.read(7, 0, 1, {}));
    ranges.arrived(ranges.begin(7, 3 * kPageBytes, 1, 0, 10, 0), 10);
    ranges.age({13}, 60);
    EXPECT_EQ(ends.of(RangeEnd::overdue), 3u);
}

// As a read of a file system may that no longer answers.
TEST(Ranges, OneThatNeverComesHoldsUpNoOther) {
    Ends ends;
    Ranges ranges(small(), 1, ends);
    ASSERT_NE(ranges.begin(7, 0, kPageBytes, 0, 0, 0), kNoRange);
    for (std::uint64_t page = 1; page < 4; page++) ranges.arrived(ranges.begin(7, page * kPageBytes, 1, 0, 0, 0), 10);
    ranges.age({3}, 60);
    EXPECT_EQ(ends.of(RangeEnd::overdue), 3u);
    ranges.age({3}, 1010);
    EXPECT_EQ(ends.of(RangeEnd::given_up), 3u);
    for (std::uint64_t page = 1; page < 24; page++)
        ranges.arrived(ranges.begin(7, page * kPageBytes, 1, 0, 3, 2000), 2000);
    EXPECT_EQ(ranges.begin(9, 0, kPageBytes, 0, 3, 2099), kNoRange) << "there are 24";
    EXPECT_NE(ranges.begin(9, 0, kPageBytes, 0, 3, 2100), kNoRange);
    EXPECT_EQ(ends.of(RangeEnd::wasted), 1u);
}

TEST(Ranges, AreNotOldWhenTheyArriveAfterTheTimeThatTheyAreSeenFrom) {
    // The server looks at the clock once a turn; what arrives during the turn is younger than that.
    Ends ends;
    Ranges ranges(small(), 1, ends);
    const auto a = ranges.begin(7, 0, kPageBytes, 0, 0, 1'000);
    EXPECT_EQ(ranges.arrived(a, 900), 0u);
    const auto b = ranges.begin(7, kPageBytes, kPageBytes, 0, 0, 1'000);
    ranges.arrived(b, 2'000);
    ranges.age({100}, 890);
    ranges.age({100}, 930);
    EXPECT_TRUE(ends.count.empty());
    // Nor does it make room for others then.
    for (unsigned page = 2; page < 24; page++) ranges.begin(7, page * kPageBytes, kPageBytes, 0, 0, 890);
    EXPECT_EQ(ranges.begin(7, 30 * kPageBytes, kPageBytes, 0, 0, 890), kNoRange);
    EXPECT_TRUE(ends.count.empty());
}

TEST(Ranges, OnlyWhatHasLainUnreadForAWhileMakesRoom) {
    Ends ends;
    Ranges ranges(small(), 2, ends);
    for (std::uint64_t i = 0; i < 4; i++) {
        const auto a = ranges.begin(7, i * 16 * kPageBytes, 16 * kPageBytes, 0, 0, 0);
        ASSERT_NE(a, kNoRange);
        if (i != 3) ranges.arrived(a, 10 + i);
    }
    EXPECT_EQ(ranges.begin(9, 0, kPageBytes, 1, 0, 109), kNoRange) << "none is old enough";
    EXPECT_NE(ranges.begin(9, 0, kPageBytes, 1, 0, 110), kNoRange);
    EXPECT_EQ(ends.of(RangeEnd::wasted), 1u);
    EXPECT_EQ(ranges.known(7, 0, kPageBytes), Ranges::Known::none) << "the oldest went";
    EXPECT_EQ(ranges.begin(9, 0, 65 * kPageBytes, 1, 0, 500), kNoRange) << "more than there may be at all";
}

// The model: who has which page, and what is known of each range.
struct Model {
    struct Entry {
        bool under_way = true, touched = false;
    };
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> owner;
    std::map<std::uint32_t, Entry> live;
    unsigned hit = 0, late = 0;

    void drop(std::uint32_t id) {
        std::erase_if(owner, [&](const auto& page) { return page.second == id; });
        live.erase(id);
    }
    void read(std::uint64_t file, std::uint64_t page, bool waited) {
        const auto found = owner.find({file, page});
        if (found == owner.end()) return;
        const std::uint32_t id = found->second;
        Entry& range = live[id];
        if (range.touched) return;
        (waited ? late : hit)++;
        range.touched = true;
        if (!range.under_way) drop(id);
    }
};

TEST(Ranges, KeepTheirBoundsAndEndOnce) {
    EXPECT_TRUE(rc::check([] {
        Ends ends;
        RangeLimits limits = small();
        limits.bytes = 512 * kPageBytes;
        Ranges ranges(limits, 2, ends);
        std::vector<std::uint32_t> under_way;
        unsigned begun = 0;
        std::uint64_t now = 0;
        std::vector<std::uint64_t> turns{0, 0};
        const auto steps = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
        for (const std::uint32_t step : steps) {
            now += step >> 28;
            const std::uint64_t file = 1 + (step >> 8 & 1), page = step >> 9 & 63;
            const std::uint64_t pages = 1 + (step >> 15 & 7) * ((step >> 20 & 3) == 0 ? 40 : 1);
            const std::uint32_t chain = step >> 18 & 1;
            switch (step % 6) {
                case 0:
                case 1: {
                    const auto id = ranges.begin(file, page * kPageBytes, pages * kPageBytes, chain, turns[chain], now);
                    if (id == kNoRange) break;
                    begun += pieces_of(pages * kPageBytes);
                    turns[chain]++;
                    RC_ASSERT(std::ranges::find(under_way, id) == under_way.end());
                    RC_ASSERT(ranges.known(file, page * kPageBytes, pages * kPageBytes) == Ranges::Known::all);
                    under_way.push_back(id);
                    break;
                }
                case 2:
                case 3: {
                    if (under_way.empty()) break;
                    const std::size_t which = page % under_way.size();
                    if (step % 6 == 2 || (step >> 21 & 3) != 0) {
                        ranges.arrived(under_way[which], now);
                    } else {
                        ranges.failed(under_way[which]);
                    }
                    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
                    break;
                }
                case 4:
                    ranges.read(file, page * kPageBytes, pages * kPageBytes, {.waited = (step >> 19 & 1) != 0});
                    break;
                default: ranges.age(turns, now); break;
            }
            RC_ASSERT(ranges.bytes() <= limits.bytes);
            RC_ASSERT(ranges.count() <= limits.ranges);
            RC_ASSERT(ranges.pages() * std::uint64_t{kPageBytes} <= ranges.bytes());
        }
        // Touched ones that are still under way have ended already; all others end now, each once.
        ranges.end();
        RC_ASSERT(ranges.count() == 0u && ranges.pages() == 0u && ranges.bytes() == 0u);
        unsigned ended = 0, overdue = 0, redeemed = 0;
        for (const auto& [key, count] : ends.count) {
            if (key.second == RangeEnd::overdue) overdue += count;
            if (key.second == RangeEnd::redeemed) redeemed += count;
            if (key.second != RangeEnd::overdue && key.second != RangeEnd::redeemed) ended += count;
        }
        RC_ASSERT(ended == begun);
        RC_ASSERT(redeemed <= overdue && overdue <= begun);
    }));
}

TEST(Ranges, HitsAndLatesAreThoseOfTheModel) {
    EXPECT_TRUE(rc::check([] {
        Ends ends;
        RangeLimits limits = small();
        limits.ranges = 4096;
        limits.bytes = std::uint64_t{4096} * 8 * kPageBytes;
        Ranges ranges(limits, 1, ends);
        Model model;
        const auto steps = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
        for (const std::uint32_t step : steps) {
            const std::uint64_t file = 1 + (step >> 8 & 1), first = step >> 9 & 31, end = first + 1 + (step >> 15 & 3);
            if (step % 4 == 0) {
                const auto id = ranges.begin(file, first * kPageBytes, (end - first) * kPageBytes, 0, 0, 0);
                RC_ASSERT(id != kNoRange && !model.live.contains(id));
                model.live[id] = {};
                for (std::uint64_t page = first; page < end; page++) model.owner.insert({{file, page}, id});
            } else if (step % 4 == 1 && !model.live.empty()) {
                const auto range = std::next(model.live.begin(), static_cast<long>(first % model.live.size()));
                if (!range->second.under_way) continue;
                ranges.arrived(range->first, 0);
                range->second.under_way = false;
                if (range->second.touched) model.drop(range->first);
            } else {
                const bool waited = step % 4 == 3;
                ranges.read(file, first * kPageBytes, (end - first) * kPageBytes, {.waited = waited});
                for (std::uint64_t page = first; page < end; page++) model.read(file, page, waited);
            }
            RC_ASSERT(ends.of(RangeEnd::hit) == model.hit);
            RC_ASSERT(ends.of(RangeEnd::late) == model.late);
            RC_ASSERT(ranges.count() == model.live.size());
            RC_ASSERT(ranges.pages() == model.owner.size());
        }
    }));
}

}  // namespace
}  // namespace chainio::shadow::test
