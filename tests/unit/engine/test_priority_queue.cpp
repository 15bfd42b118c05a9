// Which of those that wait is next: by priority, by weight, and by who came first.
#include "runtime/engine/priority_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace chainio::engine::test {
namespace {

// Items are numbered by their ranks: 0 to 999 of the first class, 1000 to 1999 of the second.
class Queue : public testing::Test {
  protected:
    static constexpr std::uint32_t kEach = 1000;
    static constexpr std::uint32_t rank_of(std::uint32_t item) { return item / kEach; }
    struct Link {
        std::vector<QueueLink>* links;
        QueueLink& operator()(std::uint32_t item) const { return (*links)[item]; }
    };
    using Waiting = PriorityQueue<Link>;

    Waiting queue_of(const std::vector<ClassRank>& ranks) {
        links_.resize(ranks.size() * kEach);
        return Waiting(ranks, Link{&links_});
    }
    static void push(Waiting& queue, std::uint32_t first, std::uint32_t count = 1) {
        for (std::uint32_t i = 0; i < count; i++) queue.push(rank_of(first), first + i);
    }
    // How many of the next so many are of that class.
    static std::uint32_t of_next(Waiting& queue, std::uint32_t count, std::uint32_t rank) {
        std::uint32_t found = 0;
        for (std::uint32_t i = 0; i < count; i++) found += rank_of(queue.pop()) == rank ? 1 : 0;
        return found;
    }
    static std::vector<std::uint32_t> all_of(Waiting& queue) {
        std::vector<std::uint32_t> items;
        for (std::uint32_t item; (item = queue.pop()) != kNoIndex;) items.push_back(item);
        EXPECT_TRUE(queue.empty());
        EXPECT_EQ(queue.size(), 0u);
        return items;
    }

    std::vector<QueueLink> links_;
};

using Items = std::vector<std::uint32_t>;

TEST_F(Queue, TheMoreUrgentComesFirstAndThenWhoCameFirst) {
    Waiting queue = queue_of({{7, 1}, {0, 1}});
    EXPECT_EQ(queue.pop(), kNoIndex);
    push(queue, 0, 2);
    push(queue, kEach, 2);
    push(queue, 2);
    EXPECT_EQ(queue.size(), 5u);
    EXPECT_EQ(all_of(queue), (Items{kEach, kEach + 1, 0, 1, 2}));
}

TEST_F(Queue, ClassesOfOnePriorityHaveWhatTheirWeightsGiveThem) {
    Waiting queue = queue_of({{4, 3}, {4, 1}});
    push(queue, 0, kEach);
    push(queue, kEach, kEach);
    EXPECT_NEAR(of_next(queue, 400, 0), 300, 1);
}

TEST_F(Queue, WhoHadNothingToAskForHasNoClaimOnThatTime) {
    Waiting queue = queue_of({{4, 1}, {4, 1}});
    push(queue, 0, kEach);
    of_next(queue, 500, 0);
    push(queue, kEach, kEach);
    EXPECT_NEAR(of_next(queue, 100, 0), 50, 1);
}

TEST_F(Queue, WhatIsPutBackIsNextAgainAndItsClassHasHadNothingByIt) {
    Waiting queue = queue_of({{4, 1}, {4, 1}});
    push(queue, 0, kEach);
    push(queue, kEach, kEach);
    std::array<std::uint32_t, 2> taken{};
    for (int i = 0; i < 100; i++) {
        const std::uint32_t item = queue.pop();
        for (int back = 0; back < 3; back++) {
            queue.push_front(rank_of(item), item);
            ASSERT_EQ(queue.pop(), item);
        }
        taken[rank_of(item)]++;
    }
    EXPECT_NEAR(taken[0], 50, 1);
    EXPECT_EQ(queue.size(), 2 * kEach - 100);
}

TEST_F(Queue, WhoMayNotHaveOneNowHasNoClaimOnThatTime) {
    Waiting queue = queue_of({{4, 1}, {4, 1}});
    push(queue, 0, kEach);
    push(queue, kEach, kEach);
    for (int i = 0; i < 500; i++) ASSERT_EQ(rank_of(queue.pop([](std::uint32_t rank) { return rank == 0; })), 0u);
    EXPECT_EQ(queue.pop([](std::uint32_t) { return false; }), kNoIndex);
    EXPECT_NEAR(of_next(queue, 100, 0), 50, 1);
}

TEST_F(Queue, TheLeastIsTheOneThatWouldComeLast) {
    Waiting queue = queue_of({{4, 1}, {4, 1}, {0, 1}});
    push(queue, 2 * kEach, 3);
    push(queue, 0, 3);
    push(queue, kEach, 1);
    EXPECT_EQ(queue.pop_least(), 2u) << "of the class that has asked for more";
    push(queue, kEach + 1, 2);
    EXPECT_EQ(queue.pop_least(), kEach + 2);
    queue.remove(1, kEach + 1);
    EXPECT_EQ(queue.pop_least(), 1u);
    EXPECT_EQ(all_of(queue), (Items{2 * kEach, 2 * kEach + 1, 2 * kEach + 2, 0, kEach}));
    push(queue, 2 * kEach, 2);
    EXPECT_EQ(queue.pop_least(), 2 * kEach + 1);
    EXPECT_EQ(queue.pop_least(), 2 * kEach);
    EXPECT_EQ(queue.pop_least(), kNoIndex);
}

TEST_F(Queue, TheOldestOfWhatIsLessUrgentIsFound) {
    Waiting queue = queue_of({{4, 1}, {7, 1}});
    EXPECT_EQ(queue.oldest_below(0), kNoIndex);
    push(queue, 0, 2);
    EXPECT_EQ(queue.oldest_below(3), 0u);
    EXPECT_EQ(queue.oldest_below(4), kNoIndex) << "it is as urgent";
    push(queue, kEach, 2);
    EXPECT_EQ(queue.oldest_below(4), kEach);
    EXPECT_EQ(queue.oldest_below(7), kNoIndex);
    EXPECT_EQ(queue.size(), 4u) << "and it stays";
}

TEST_F(Queue, WhatIsTakenOutOfTheMiddleLeavesTheOthersInOrder) {
    Waiting queue = queue_of({{4, 1}});
    push(queue, 0, 5);
    for (const std::uint32_t item : {2u, 0u, 4u}) queue.remove(0, item);
    EXPECT_EQ(queue.size(), 2u);
    push(queue, 5);
    EXPECT_EQ(all_of(queue), (Items{1, 3, 5}));
    push(queue, 0);
    EXPECT_EQ(all_of(queue), (Items{0}));
}

// The numbers by which turns are told begin anew now and then.
TEST_F(Queue, ManyTurnsLaterItIsAsFair) {
    Waiting queue = queue_of({{4, 1}, {4, 1}, {4, 1}});
    push(queue, 0, 10);
    push(queue, kEach, 10);
    std::array<std::uint64_t, 2> taken{};
    for (std::uint64_t i = 0; i < 2'500'000; i++) {
        const std::uint32_t item = queue.pop();
        taken[rank_of(item)]++;
        queue.push(rank_of(item), item);
        if (i % 500'000 != 499'999) continue;
        ASSERT_NEAR(static_cast<double>(taken[0]), 250'000, 3) << i;
        taken = {};
    }
    push(queue, 2 * kEach, 10);
    EXPECT_NEAR(of_next(queue, 9, 2), 3, 1) << "nor has one that was idle all the while to wait for its turn";
}

}  // namespace
}  // namespace chainio::engine::test
