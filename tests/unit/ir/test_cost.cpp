// The bound of executed instructions: never below what a run takes, and no more than it need be.
#include "compiler/ir/cost.h"
#include "tests/unit/ir/ir_fixture.h"

namespace chainio::ir::test {
namespace {

using Build = std::function<void(Builder&)>;
using How = decltype(Stmt::node);

constexpr std::uint32_t kRounds = 1000;

std::uint64_t bound(const Build& build) { return instruction_bound(step(build)); }
void loop(Builder& b, std::uint32_t rounds, const Build& body) {
    b.loop(imm(rounds), rounds, CIO_MALFORMED, [&](Operand) { body(b); });
}
// Takes many times what a round takes otherwise.
void dear(Builder& b) {
    loop(b, 50, [](Builder& inner) { inner.unary(UnOp::neg, inner.input(Input::block_tag)); });
}
Build dear_then(const How& how) {
    return [how](Builder& b) {
        b.if_(b.input(Input::block_tag), [&] {
            dear(b);
            std::visit([&](const auto& node) { b.add(node); }, how);
        });
    };
}
std::uint64_t bound_of_loop(const How& how) {
    return bound([&](Builder& b) { loop(b, kRounds, dear_then(how)); });
}

TEST(Cost, WhatLeavesALoopCountsOnce) {
    const std::uint64_t in_each = bound([](Builder& b) { loop(b, kRounds, dear); });
    const std::uint64_t once = bound(dear);
    const std::uint64_t without = bound(
        [](Builder& b) { loop(b, kRounds, [](Builder& body) { body.if_(body.input(Input::block_tag), [] {}); }); });
    for (const How& how : {How(End{}), How(Fail{CIO_MALFORMED}), How(Break{})}) {
        EXPECT_LT(bound_of_loop(how), in_each / 20);
        EXPECT_GE(bound_of_loop(how) + 100, without + once);
    }
    EXPECT_GE(bound_of_loop(Continue{}), in_each) << "this leads to the next round";
}

TEST(Cost, WhatFollowsALoopThatIsLeftCounts) {
    const std::uint64_t with = bound([](Builder& b) {
        loop(b, 4, dear_then(Break{}));
        loop(b, kRounds, dear);
    });
    EXPECT_GE(with, bound([](Builder& b) { loop(b, kRounds, dear); }) + bound(dear) - 200);
}

TEST(Cost, AnInnerLoopIsLeftInEachRoundOfTheOuterOne) {
    const auto nested = [](const How& how) {
        return bound([&](Builder& b) { loop(b, kRounds, [&](Builder& outer) { loop(outer, 2, dear_then(how)); }); });
    };
    EXPECT_GE(nested(Break{}), kRounds * (bound(dear) - 100));
    EXPECT_LT(nested(End{}), nested(Break{}) / 10) << "that leaves both";
}

// What does not fit the result is refused before it is copied.
TEST(Cost, WhatIsEmittedCountsAsFarAsTheResultHoldsIt) {
    const auto emit = [](std::uint32_t limit) {
        return [limit](Builder& b) {
            b.check_range(Space::block, imm(0), b.input(Input::block_length), CIO_SHORT_READ);
            b.add(EmitBytes{{Space::block, imm(0), b.input(Input::block_length)}, 65536, limit});
        };
    };
    const std::uint64_t nothing = bound([](Builder&) {}), little = bound(emit(8)), much = bound(emit(65536));
    EXPECT_LT(little, nothing + 400);
    EXPECT_GE(much, nothing + std::uint64_t{3} * 65536);
    const std::uint64_t rounds = bound([&](Builder& b) { loop(b, kRounds, emit(4096)); });
    EXPECT_GE(rounds, kRounds * (little - nothing - 24) + std::uint64_t{3} * 4096);
    EXPECT_LE(rounds, kRounds * (little - nothing + 24) + std::uint64_t{3} * 4096 + 200)
        << "each round counts them all";
}

}  // namespace
}  // namespace chainio::ir::test
