// Where requests end, and what a connection holds at most.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/engine/priority_queue.h"
#include "runtime/service/connection.h"
#include "tests/unit/service/bytes.h"

namespace chainio::service {
namespace {

std::string text(std::span<const std::uint8_t> from) { return {from.begin(), from.end()}; }

// Requests of so many bytes, and an end behind them.
struct Framing {
    std::size_t fields;
    std::string end;
};

Request first(const Framing& framing, std::string_view from, std::size_t most = 64) {
    std::size_t looked = 0;
    return first_request({Cut::whole, framing.fields}, framing.end, bytes(from), most, looked);
}

TEST(Framing, ALineEndsWithItsLastByte) {
    const Framing line{0, "\r\n"};
    EXPECT_EQ(first(line, "get a\r\nget b\r\n").length, 7u);
    EXPECT_EQ(first(line, "get a\r").cut, Cut::more);
    EXPECT_EQ(first(line, "").cut, Cut::more);
    EXPECT_EQ(first(line, "\r\n").length, 2u);
    EXPECT_EQ(first(line, "a\nb\rc\r\r\n").length, 8u);
}

TEST(Framing, AnEndInsideTheFixedPartIsNotOne) {
    const Framing framing{4, "\n"};
    EXPECT_EQ(first(framing, "\n\n\n\nab\n").length, 7u);
    EXPECT_EQ(first(framing, "\n\n\n\n").cut, Cut::more);
    EXPECT_EQ(first(framing, "\n\n\n\n\n").length, 5u);
}

TEST(Framing, AFixedRequestIsItsSize) {
    const Framing framing{9, ""};
    EXPECT_EQ(first(framing, "12345678").cut, Cut::more);
    const Request whole = first(framing, "1234567890");
    EXPECT_EQ(whole.cut, Cut::whole);
    EXPECT_EQ(whole.length, 9u);
}

TEST(Framing, TheLongestRequestIsAllowedAndOneByteMoreIsNot) {
    const Framing line{0, "\n"};
    EXPECT_EQ(first(line, "1234567\n", 8).length, 8u);
    EXPECT_EQ(first(line, "1234567", 8).cut, Cut::more);
    EXPECT_EQ(first(line, "12345678\n", 8).cut, Cut::long_);
    const Framing no_room{8, "\n"};
    EXPECT_EQ(first(no_room, "1234567", 8).cut, Cut::long_);
    EXPECT_EQ(first({9, ""}, "1", 8).cut, Cut::long_);
    EXPECT_EQ(first({9, ""}, "", 8).cut, Cut::more);
}

// Whatever the pieces in which bytes come, the requests are the same.
TEST(Framing, BytesThatComeOneByOne) {
    const Framing line{2, "END"};
    const std::string all = "xxENDxxEENDENENDEND";
    std::vector<std::string> requests;
    std::string there;
    std::size_t looked = 0;
    for (char byte : all) {
        there += byte;
        const Request request = first_request({Cut::whole, line.fields}, line.end, bytes(there), 64, looked);
        if (request.cut != Cut::whole) continue;
        requests.push_back(there.substr(0, request.length));
        there.erase(0, request.length);
    }
    EXPECT_EQ(requests, (std::vector<std::string>{"xxEND", "xxEEND", "ENEND"}));
    EXPECT_EQ(there, "END");
}

TEST(Input, TakesNoMoreThanItsRoomAndKeepsTheRest) {
    std::vector<std::uint8_t> memory(8);
    Input input(memory.data(), memory.size());
    EXPECT_EQ(input.add(bytes("123456")), 6u);
    EXPECT_EQ(input.add(bytes("789")), 2u);
    EXPECT_EQ(input.room(), 0u);
    input.take(5);
    EXPECT_EQ(input.add(bytes("abcdefgh")), 5u);
    EXPECT_EQ(text(input.bytes()), "678abcde");
}

TEST(Input, ARequestThatRunsStaysWhereItIs) {
    std::vector<std::uint8_t> memory(8);
    Input input(memory.data(), memory.size());
    input.add(bytes("12345"));
    input.take(2);
    input.pin(true);
    const auto running = input.bytes();
    EXPECT_EQ(input.add(bytes("6789")), 3u);
    EXPECT_EQ(text(running), "345");
    input.pin(false);
    EXPECT_EQ(input.add(bytes("9")), 1u);
    EXPECT_EQ(text(input.bytes()), "3456789");
}

// Each byte that is taken has one moved at most, however little room a request leaves when it ends.
TEST(Input, WhatIsSentAheadIsNotMovedWithEachRequest) {
    std::vector<std::uint8_t> memory(std::size_t{64} << 10);
    Input input(memory.data(), memory.size());
    const std::string request = "abc\n";
    std::size_t moved = 0, taken = 0;
    for (std::size_t at = 0; taken < 10 * memory.size();) {
        const std::uint8_t* before = input.bytes().data();
        const std::size_t held = input.held();
        while (input.add(bytes(request.substr(at))) == request.size() - at) at = 0;
        at = (taken + input.held()) % request.size();
        if (input.bytes().data() != before) moved += held;
        ASSERT_EQ(text(input.bytes().first(request.size())), request);
        input.take(request.size());
        taken += request.size();
    }
    EXPECT_GT(moved, 0u);
    EXPECT_LE(moved, taken);
}

TEST(Input, ARequestThatReachesTheEndHasRoomForItsRest) {
    std::vector<std::uint8_t> memory(std::size_t{64} << 10);
    Input input(memory.data(), memory.size());
    EXPECT_FALSE(input.make_room());
    input.add(bytes("short\n" + std::string(memory.size() - 6, 'x')));
    EXPECT_FALSE(input.make_room()) << "there is none";
    input.take(6);
    EXPECT_EQ(input.add(bytes("rest\n")), 0u) << "it would not pay";
    EXPECT_TRUE(input.lend().empty());
    input.pin(true);
    EXPECT_FALSE(input.make_room()) << "a request that runs stays where it is";
    input.pin(false);
    EXPECT_TRUE(input.make_room());
    EXPECT_FALSE(input.make_room()) << "there is some already";
    EXPECT_EQ(input.add(bytes("rest\n")), 5u);
    EXPECT_TRUE(text(input.bytes()).ends_with("xxrest\n"));
}

TEST(Input, BytesAreReceivedWhereTheRoomWas) {
    std::vector<std::uint8_t> memory(8);
    Input input(memory.data(), memory.size());
    input.add(bytes("12345"));
    input.take(2);
    const auto room = input.lend();
    ASSERT_EQ(room.size(), 5u) << "what is held is moved to the front";
    // What is held is taken meanwhile; the kernel still writes to where it was told.
    input.take(3);
    EXPECT_EQ(input.held(), 0u);
    std::ranges::copy(bytes("abcd"), room.begin());
    input.received(4);
    EXPECT_EQ(text(input.bytes()), "abcd");
    // A request that runs is not moved for it.
    input.pin(true);
    EXPECT_EQ(input.lend().size(), 1u);
    input.received(0);
    input.pin(false);
    EXPECT_EQ(input.add(bytes("efgh")), 4u);
    EXPECT_TRUE(input.lend().empty());
    // What comes behind the connection's end is nobody's.
    input.take(3);
    (void)input.lend();
    input.clear();
    input.received(3);
    EXPECT_EQ(input.held(), 0u);
}

TEST(Output, IsSentFromTheFrontAndBounded) {
    std::vector<std::uint8_t> memory(4);
    Output output(memory.data(), memory.size());
    EXPECT_EQ(output.add(bytes("abcdef")), 4u);
    EXPECT_EQ(output.room(), 0u);
    output.sent(3);
    std::array<Output::Piece, Output::kMostPieces> room;
    const auto pieces = output.unsent(room, 64);
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_EQ(text({pieces[0].data, pieces[0].length}), "d");
    EXPECT_EQ(output.add(bytes("ef")), 0u) << "what the kernel sends from must not move";
    output.sent(1);
    EXPECT_TRUE(output.empty());
    EXPECT_EQ(output.add(bytes("ef")), 2u);
}

struct Links {
    engine::QueueLink* links;
    engine::QueueLink& operator()(std::uint32_t i) const { return links[i]; }
};

TEST(Waiting, WhatIsPutBackHasCostItsClassNothing) {
    std::vector<engine::QueueLink> links(2);
    engine::PriorityQueue<Links> queue({{0, 1}, {0, 1}}, Links{links.data()});
    queue.push(0, 0);
    queue.push(1, 1);
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_EQ(queue.pop(), 0u) << i;
        queue.push_front(0, 0);
    }
    EXPECT_EQ(queue.pop(), 0u);
    EXPECT_EQ(queue.pop(), 1u);
}

TEST(Waiting, AClassThatWasIdleHasNoClaimOnTheTimeBefore) {
    std::vector<engine::QueueLink> links(30);
    engine::PriorityQueue<Links> queue({{0, 1}, {0, 1}}, Links{links.data()});
    for (std::uint32_t i = 0; i < 20; i++) queue.push(0, i);
    for (std::uint32_t i = 0; i < 10; i++) EXPECT_EQ(queue.pop(), i);
    for (std::uint32_t i = 20; i < 30; i++) queue.push(1, i);
    for (std::uint32_t i = 0; i < 10; i++) {
        const std::uint32_t one = queue.pop(), other = queue.pop();
        EXPECT_EQ(std::min(one, other), 10 + i);
        EXPECT_EQ(std::max(one, other), 20 + i);
    }
}

// Taken and put in again, again and again: each of the two classes has its turn.
void take_turns(engine::PriorityQueue<Links>& queue, std::uint32_t times) {
    for (std::uint32_t rank : {0u, 1u}) queue.push(rank, rank);
    for (std::uint32_t i = 0; i < times; i++) {
        const std::uint32_t one = queue.pop(), other = queue.pop();
        ASSERT_EQ(one + other, 1u) << i;
        queue.push(one, one);
        queue.push(other, other);
    }
    for (std::uint32_t rank : {0u, 1u}) queue.remove(rank, rank);
}

TEST(Waiting, AClassThatWasServedAloneOwesNothingForIt) {
    std::vector<engine::QueueLink> links(20);
    engine::PriorityQueue<Links> queue({{0, 1}, {0, 1}}, Links{links.data()});
    for (int i = 0; i < 1000; i++) {
        queue.push(0, 0);
        EXPECT_EQ(queue.pop(), 0u);
    }
    for (std::uint32_t i = 10; i < 20; i++) queue.push(1, i);
    for (std::uint32_t i = 0; i < 10; i++) queue.push(0, i);
    for (std::uint32_t i = 0; i < 10; i++) {
        const std::uint32_t one = queue.pop(), other = queue.pop();
        EXPECT_EQ(std::min(one, other), i);
        EXPECT_EQ(std::max(one, other), 10 + i);
    }
}

// Also across the point where the time begins anew, which is at a million.
TEST(Waiting, ClassesTakeTurnsForEver) {
    std::vector<engine::QueueLink> links(2);
    engine::PriorityQueue<Links> queue({{0, 1}, {0, 1}}, Links{links.data()});
    take_turns(queue, 1'500'000);
    for (int i = 0; i < 1'500'000; i++) {
        queue.push(1, 1);
        ASSERT_EQ(queue.pop(), 1u);
    }
    take_turns(queue, 10);
}

TEST(Waiting, AClassThatMayHaveNothingHoldsUpNoneAndSavesNothing) {
    std::vector<engine::QueueLink> links(30);
    engine::PriorityQueue<Links> queue({{0, 1}, {0, 1}, {0, 1}}, Links{links.data()});
    for (std::uint32_t i = 0; i < 30; i++) queue.push(i / 10, i);
    const auto not_first = [](std::uint32_t rank) { return rank != 0; };
    for (std::uint32_t i = 0; i < 5; i++) {
        EXPECT_EQ(queue.pop(not_first), 10 + i);
        EXPECT_EQ(queue.pop(not_first), 20 + i);
    }
    std::vector<std::uint32_t> next;
    for (unsigned i = 0; i < 6; i++) next.push_back(queue.pop());
    const auto of_first = std::ranges::count_if(next, [](std::uint32_t i) { return i < 10; });
    EXPECT_GE(of_first, 2);
    EXPECT_LE(of_first, 3) << "it may come first once";
    while (queue.pop(not_first) != engine::kNoIndex) {}
    for (auto i = static_cast<std::uint32_t>(of_first); i < 10; i++) EXPECT_EQ(queue.pop(), i);
    EXPECT_TRUE(queue.empty());
}

TEST(Shedding, TheLeastUrgentThatCameLastGoesFirst) {
    std::vector<engine::QueueLink> links(6);
    engine::PriorityQueue<Links> queue({{7, 1}, {0, 1}, {4, 1}}, Links{links.data()});
    queue.push(1, 0);
    queue.push(0, 1);
    queue.push(2, 2);
    queue.push(0, 3);
    queue.push(1, 4);
    for (std::uint32_t want : {3u, 1u, 2u, 4u, 0u, engine::kNoIndex}) EXPECT_EQ(queue.pop_least(), want);
    EXPECT_TRUE(queue.empty());
}

TEST(Displacing, TheLeastUrgentThatCameFirstGoes) {
    std::vector<engine::QueueLink> links(6);
    engine::PriorityQueue<Links> queue({{7, 1}, {0, 1}, {4, 1}}, Links{links.data()});
    for (const std::uint32_t priority : {0u, 7u}) EXPECT_EQ(queue.oldest_below(priority), engine::kNoIndex);
    queue.push(1, 0);
    queue.push(2, 1);
    queue.push(0, 2);
    queue.push(0, 3);
    EXPECT_EQ(queue.oldest_below(0), 2u);
    EXPECT_EQ(queue.oldest_below(6), 2u);
    EXPECT_EQ(queue.oldest_below(7), engine::kNoIndex) << "none is less urgent";
    queue.remove(0, 2);
    EXPECT_EQ(queue.oldest_below(4), 3u);
    queue.remove(0, 3);
    EXPECT_EQ(queue.oldest_below(4), engine::kNoIndex);
    EXPECT_EQ(queue.oldest_below(3), 1u);
}

// Items 0 to 9 are of the first class, those from 10 on of the second. All are shed, one after the other.
std::vector<std::uint32_t> shed_all(const std::vector<engine::ClassRank>& ranks, std::uint32_t of_first,
                                    std::uint32_t of_second) {
    std::vector<engine::QueueLink> links(20);
    engine::PriorityQueue<Links> queue(ranks, Links{links.data()});
    for (std::uint32_t i = 0; i < of_first; i++) queue.push(0, i);
    for (std::uint32_t i = 0; i < of_second; i++) queue.push(1, 10 + i);
    std::vector<std::uint32_t> shed;
    while (!queue.empty()) shed.push_back(queue.pop_least());
    return shed;
}

TEST(Shedding, AmongClassesOfOnePriorityTheOneThatHasMostForItsWeightGoesFirst) {
    using Order = std::vector<std::uint32_t>;
    EXPECT_EQ(shed_all({{4, 1}, {4, 1}}, 4, 1), (Order{3, 2, 1, 10, 0}));
    EXPECT_EQ(shed_all({{4, 1}, {4, 1}}, 1, 4), (Order{13, 12, 11, 10, 0}));
    EXPECT_EQ(shed_all({{4, 1}, {4, 1}}, 3, 3), (Order{12, 2, 11, 1, 10, 0})) << "among equals the later class";
    EXPECT_EQ(shed_all({{4, 100}, {4, 1}}, 4, 2), (Order{11, 3, 2, 1, 10, 0}));
    EXPECT_EQ(shed_all({{4, 1}, {4, 100}}, 2, 4), (Order{1, 13, 12, 11, 10, 0}));
    EXPECT_EQ(shed_all({{4, 2}, {4, 1}}, 4, 3), (Order{12, 3, 11, 2, 1, 10, 0}));
    EXPECT_EQ(shed_all({{4, 1000}, {3, 1}}, 1, 4), (Order{0, 13, 12, 11, 10})) << "a weight makes nothing more urgent";
}

// What comes before it is known whether there is room for it, as requests do.
std::vector<unsigned> taken_of(const std::vector<engine::ClassRank>& ranks, std::uint32_t room, unsigned rounds,
                               const std::vector<unsigned>& arrivals) {
    std::vector<engine::QueueLink> links(room + 1);
    std::vector<std::uint32_t> rank_of(room + 1), free;
    for (std::uint32_t i = 0; i <= room; i++) free.push_back(i);
    engine::PriorityQueue<Links> queue(ranks, Links{links.data()});
    std::vector<unsigned> taken(ranks.size());
    for (unsigned round = 0; round < rounds; round++) {
        for (std::uint32_t rank = 0; rank < ranks.size(); rank++) {
            for (unsigned i = 0; i < arrivals[rank]; i++) {
                rank_of[free.back()] = rank;
                queue.push(rank, free.back());
                free.pop_back();
                if (queue.size() > room) free.push_back(queue.pop_least());
            }
        }
        free.push_back(queue.pop());
        taken[rank_of[free.back()]]++;
    }
    return taken;
}

TEST(Shedding, EachClassHasWhatItsWeightSaysWhoeverFloods) {
    using Taken = std::vector<unsigned>;
    for (const std::uint32_t room : {1u, 2u, 8u, 100u}) {
        EXPECT_EQ(taken_of({{4, 1}, {4, 1}}, room, 1000, {40, 10}), (Taken{500, 500})) << room;
        EXPECT_EQ(taken_of({{4, 1}, {4, 1}}, room, 1000, {10, 40}), (Taken{500, 500})) << room;
        EXPECT_EQ(taken_of({{4, 1}, {4, 4}}, room, 1000, {10, 10}), (Taken{200, 800})) << room;
        EXPECT_EQ(taken_of({{4, 4}, {4, 1}}, room, 1000, {1, 40}), (Taken{800, 200})) << room;
    }
}

}  // namespace
}  // namespace chainio::service
