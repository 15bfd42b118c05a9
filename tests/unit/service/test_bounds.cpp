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
    EXPECT_EQ(first({9, ""}, "", 8).cut, Cut::long_);
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

}  // namespace
}  // namespace chainio::service
