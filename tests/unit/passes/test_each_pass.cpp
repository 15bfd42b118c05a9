// What each pass does to the smallest program that shows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/arith.h"
#include "compiler/ir/artifact.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/values.h"
#include "compiler/passes/check_elim.h"
#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/fold.h"
#include "compiler/passes/renumber.h"

namespace chainio::passes {
namespace {

using ir::BinOp;
using ir::Builder;
using ir::Operand;
using ir::Space;

Operand imm(std::uint64_t v) { return Operand::imm(v); }

// The program's body as text, after the passes given.
std::string after(const std::function<void(Builder&)>& build,
                  std::initializer_list<void (*)(const ir::Module&, ir::Program&)> passes) {
    Builder b("p", ir::ProgramKind::step);
    build(b);
    ir::Module m;
    m.literals = {1, 2, 3, 4};
    ir::Program program = b.finish();
    for (auto pass : passes) pass(m, program);
    m.programs.push_back(std::move(program));
    std::string text = ir::dump(m);
    std::size_t from = text.find("{\n", text.find("program 0")) + 2;
    return text.substr(from, text.rfind("}\n") - from);
}
void queue(Builder& b, Operand v) { b.add(ir::Next{0, 0, v, imm(512), imm(0)}); }

TEST(Fold, ConstantsAndCopies) {
    EXPECT_EQ(
        after(
            [](Builder& b) {
                Operand x = b.binary(BinOp::add, imm(2), imm(3));
                queue(b, b.binary(BinOp::mul, x, imm(4)));
                ir::Reg copy = b.new_reg();
                Operand key = b.arg(0);
                b.assign(copy, key);
                queue(b, b.binary(BinOp::add, Operand::reg(copy), imm(0)));
            },
            {fold, eliminate_dead}),
        "  next step 0 at 20 for 512 in file 0 tag 0\n  %3 = arg 0\n  next step 0 at %3 for 512 in file 0 tag 0\n");
}

// Whatever one operation becomes, it is that for all values of its register.
TEST(Fold, WhatAnOperationBecomesHoldsForAllValues) {
    constexpr std::uint64_t most = ~std::uint64_t{0}, sign = std::uint64_t{1} << 63;
    constexpr std::uint64_t values[] = {0, 1, 2, 3, 63, 64, 65, 255, sign - 1, sign, sign + 1, most - 1, most};
    const auto same = [&](BinOp op, const std::function<Operand(Builder&, Operand, int)>& side, const auto& value_of) {
        Builder b("p", ir::ProgramKind::step);
        const Operand x = b.arg(0);
        const Operand left = side(b, x, 0), right = side(b, x, 1);
        queue(b, b.binary(op, left, right));
        ir::Program program = b.finish();
        fold({}, program);
        const Operand is = std::get<ir::Next>(program.body.back().node).offset;
        if (!is.is_imm && is != x) return;  // it is computed
        for (const std::uint64_t v : values)
            EXPECT_EQ(is.is_imm ? is.value : v, ir::evaluate(op, value_of(v, 0), value_of(v, 1)))
                << "operation " << static_cast<int>(op) << " of " << value_of(v, 0) << " and " << value_of(v, 1);
    };
    for (int op = 0; op <= static_cast<int>(BinOp::umax); op++) {
        for (const std::uint64_t c : values) {
            for (const int at : {0, 1})
                same(
                    static_cast<BinOp>(op), [&](Builder&, Operand x, int side) { return side == at ? imm(c) : x; },
                    [&](std::uint64_t v, int side) { return side == at ? c : v; });
            same(
                static_cast<BinOp>(op),
                [&](Builder& b, Operand x, int side) { return side == 0 ? x : b.binary(BinOp::add, x, imm(c)); },
                [&](std::uint64_t v, int side) { return side == 0 ? v : v + c; });
        }
    }
}

TEST(Fold, DecidedBranchesAndChecks) {
    EXPECT_EQ(after(
                  [](Builder& b) {
                      b.check(imm(1), CIO_MALFORMED);
                      b.if_(b.binary(BinOp::eq, imm(1), imm(2)), [&] { queue(b, imm(1)); }, [&] { queue(b, imm(2)); });
                      b.check(imm(0), CIO_NOT_FOUND);
                      queue(b, imm(3));
                  },
                  {fold, eliminate_dead}),
              "  next step 0 at 2 for 512 in file 0 tag 0\n  fail not_found\n");
}

TEST(Fold, ACopyOfAVariableIsKeptWhenTheVariableChanges) {
    std::string text = after(
        [](Builder& b) {
            ir::Reg v = b.variable(b.arg(0));
            ir::Reg copy = b.new_reg();
            b.assign(copy, Operand::reg(v));
            b.assign(v, b.arg(1));
            queue(b, Operand::reg(copy));
            queue(b, Operand::reg(v));
        },
        {fold});
    EXPECT_NE(text.find("next step 0 at %0 "), std::string::npos) << text;
    EXPECT_NE(text.find("next step 0 at %3 "), std::string::npos) << text;
}

TEST(Fold, ALoopCountsByACopyOfAVariableThatItsBodyWrites) {
    const auto loop = [](bool writes) {
        return after(
            [&](Builder& b) {
                ir::Reg n = b.variable(b.arg(0));
                b.if_(b.arg(1), [&] { b.assign(n, b.arg(2)); });
                ir::Reg copy = b.new_reg();
                b.assign(copy, Operand::reg(n));
                b.loop(b.binary(BinOp::sub, Operand::reg(copy), imm(0)), 9, CIO_MALFORMED, [&](Operand i) {
                    queue(b, i);
                    if (writes) b.assign(n, i);
                });
                queue(b, Operand::reg(n));
            },
            {fold, eliminate_dead});
    };
    EXPECT_NE(loop(false).find("loop %6 < %1 max 9"), std::string::npos) << loop(false);
    EXPECT_NE(loop(true).find("  %5 = %1\n  loop %6 < %5 max 9"), std::string::npos) << loop(true);
}

TEST(Common, LoadsOfTheBlockHappenOnce) {
    std::string text = after(
        [](Builder& b) {
            b.check_range(Space::block, imm(0), imm(8), CIO_MALFORMED);
            Operand one = b.load(Space::block, imm(4), 4), two = b.load(Space::block, imm(4), 4);
            queue(b, one);
            b.if_(one, [&] { queue(b, b.load(Space::block, imm(4), 4)); });
            queue(b, two);
            queue(b, b.load(Space::block, imm(4), 4, true));
        },
        {eliminate_common, fold, eliminate_dead});
    EXPECT_EQ(text,
              "  check block[0 +8] else malformed\n"
              "  %0 = load u32le block[4]\n"
              "  next step 0 at %0 for 512 in file 0 tag 0\n"
              "  if %0 {\n    next step 0 at %0 for 512 in file 0 tag 0\n  }\n"
              "  next step 0 at %0 for 512 in file 0 tag 0\n"
              "  %3 = load u32be block[4]\n"
              "  next step 0 at %3 for 512 in file 0 tag 0\n");
}

TEST(Common, AVariableIsNoNameForWhatItWasSetTo) {
    EXPECT_EQ(after(
                  [](Builder& b) {
                      Operand key = b.arg(0);
                      ir::Reg variable = b.variable(imm(0));
                      b.add(ir::Binary{variable, BinOp::mul, key, imm(3)});
                      queue(b, Operand::reg(variable));
                      b.assign(variable, imm(7));
                      queue(b, b.binary(BinOp::mul, key, imm(3)));
                  },
                  {eliminate_common, eliminate_dead}),
              "  %0 = arg 0\n  %1 = 0\n  %1 = mul %0, 3\n  next step 0 at %1 for 512 in file 0 tag 0\n"
              "  %1 = 7\n  %2 = mul %0, 3\n  next step 0 at %2 for 512 in file 0 tag 0\n");
}

TEST(Common, ALoadOfTheStateIsRepeatedAfterAStore) {
    auto loads = [](const std::function<void(Builder&)>& between) {
        std::string text = after(
            [&](Builder& b) {
                queue(b, b.load(Space::state, imm(0), 8));
                between(b);
                queue(b, b.load(Space::state, imm(0), 8));
            },
            {eliminate_common, fold, eliminate_dead});
        std::size_t n = 0;
        for (std::size_t at = 0; (at = text.find("load", at)) != std::string::npos; at++) n++;
        return n;
    };
    auto store = [](Builder& b) { b.add(ir::StoreState{imm(0), 8, imm(1)}); };
    EXPECT_EQ(loads([](Builder&) {}), 1u);
    EXPECT_EQ(loads(store), 2u);
    EXPECT_EQ(loads([&](Builder& b) { b.if_(b.arg(0), [&] { store(b); }); }), 2u);
    EXPECT_EQ(loads([&](Builder& b) { b.if_(b.arg(0), [] {}, [&] { store(b); }); }), 2u);
    EXPECT_EQ(loads([&](Builder& b) { b.loop(b.arg(0), 3, CIO_MALFORMED, [&](Operand) { store(b); }); }), 2u);
}

TEST(Common, ALoopLoadsWhatItsLastRoundStored) {
    std::string text = after(
        [](Builder& b) {
            queue(b, b.load(Space::state, imm(0), 8));
            b.loop(b.arg(0), 3, CIO_MALFORMED, [&](Operand i) {
                queue(b, b.load(Space::state, imm(0), 8));
                b.add(ir::StoreState{imm(0), 8, i});
            });
        },
        {eliminate_common, fold, eliminate_dead});
    EXPECT_NE(text.find("load"), text.rfind("load")) << text;
}

TEST(Checks, ACoveredRangeIsCheckedOnce) {
    EXPECT_EQ(after(
                  [](Builder& b) {
                      Operand at = b.arg(0);
                      b.check_range(Space::block, at, imm(16), CIO_MALFORMED);
                      Operand behind = b.binary(BinOp::add, at, imm(8));
                      b.check_range(Space::block, behind, imm(8), CIO_MALFORMED);
                      queue(b, b.load(Space::block, behind, 8));
                      b.check_range(Space::block, behind, imm(9), CIO_MALFORMED);
                  },
                  {eliminate_checks}),
              "  %0 = arg 0\n  check block[%0 +16] else malformed\n  %1 = add %0, 8\n  %2 = load u64le block[%1]\n"
              "  next step 0 at %2 for 512 in file 0 tag 0\n  check block[%1 +9] else malformed\n");
}

TEST(Checks, AConditionThatWasBranchedOnIsKnown) {
    std::string text = after(
        [](Builder& b) {
            Operand cond = b.arg(0);
            b.if_(cond, [&] { b.add(ir::End{}); });
            b.if_(cond, [&] { queue(b, imm(1)); }, [&] { queue(b, imm(2)); });
            Operand other = b.arg(1);
            b.check(other, CIO_MALFORMED);
            b.check(other, CIO_NOT_FOUND);
        },
        {eliminate_checks});
    EXPECT_EQ(text.find("at 1 "), std::string::npos) << text;
    EXPECT_NE(text.find("at 2 "), std::string::npos) << text;
    EXPECT_EQ(text.find("not_found"), std::string::npos) << text;
}

TEST(Checks, AConditionThatWasWrittenSinceIsNot) {
    std::string text = after(
        [](Builder& b) {
            ir::Reg cond = b.variable(b.arg(0));
            b.if_(Operand::reg(cond), [&] { b.add(ir::End{}); }, [&] { b.assign(cond, b.arg(1)); });
            b.check(Operand::reg(cond), CIO_NOT_FOUND);
        },
        {eliminate_checks});
    EXPECT_NE(text.find("check"), std::string::npos) << text;
}

TEST(Dead, OnlyWhatCannotFailDisappears) {
    EXPECT_EQ(after(
                  [](Builder& b) {
                      b.binary(BinOp::add, b.arg(0), imm(1));
                      b.check_range(Space::block, imm(0), imm(8), CIO_MALFORMED);
                      b.hash(ir::HashAlgo::fnv1a, {Space::block, imm(0), imm(8)}, imm(0), 8);
                      b.hash(ir::HashAlgo::fnv1a, {Space::block, imm(0), imm(8)}, imm(0), 7);
                      b.varint(ir::VarintKind::leb128, Space::block, imm(0), imm(8), CIO_MALFORMED);
                      b.if_(b.arg(1), [] {});
                  },
                  {eliminate_dead}),
              "  check block[0 +8] else malformed\n  %3 = hash fnv1a block[0 +8] seed 0 max 7\n"
              "  %4, %5 = varint leb128 block[0 ..8] else malformed\n");
}

TEST(Renumber, VariablesThatAreNeverAliveTogetherShareANumber) {
    Builder b("p", ir::ProgramKind::step);
    for (int i = 0; i < 200; i++) {
        ir::Reg v = b.variable(imm(0));
        b.assign(v, b.arg(0));
        queue(b, Operand::reg(v));
    }
    ir::Reg outer = b.variable(imm(7));
    b.loop(imm(3), 3, CIO_MALFORMED, [&](Operand i) {
        ir::Reg inner = b.variable(i);
        b.assign(inner, imm(1));
        queue(b, Operand::reg(inner));
        b.assign(outer, b.binary(BinOp::add, Operand::reg(outer), imm(1)));
    });
    queue(b, Operand::reg(outer));
    ir::Program program = b.finish();
    renumber({}, program);
    std::vector<ir::Reg> defs;
    ir::collect_defs(program.body, defs);
    std::map<ir::Reg, int> writes;
    for (ir::Reg r : defs) writes[r]++;
    auto variables = std::ranges::count_if(writes, [](const auto& w) { return w.second > 1; });
    EXPECT_EQ(variables, 2) << "one at a time, and one more inside the loop";
}

}  // namespace
}  // namespace chainio::passes
