// What validate() refuses, one invariant a case, and the nearest thing that it accepts.
#include "tests/unit/ir/ir_fixture.h"

namespace chainio::ir::test {
namespace {

std::string problem_of(const std::function<void(Builder&)>& build, const std::function<void(Module&)>& change = {}) {
    Module m = module_with_step(step(build));
    if (change) change(m);
    return validate(m);
}
#define EXPECT_PROBLEM(text, ...) \
    EXPECT_NE(problem_of(__VA_ARGS__).find(text), std::string::npos) << problem_of(__VA_ARGS__)

TEST(Validate, AnAccessNeedsARangeCheckThatCoversIt) {
    EXPECT_PROBLEM("no range check", [](Builder& b) { b.load(Space::block, imm(0), 1); });
    EXPECT_PROBLEM("no range check", [](Builder& b) {
        b.check_range(Space::block, imm(0), imm(8), CIO_MALFORMED);
        b.load(Space::block, imm(5), 4);
    });
    EXPECT_EQ(problem_of([](Builder& b) {
                  b.check_range(Space::block, imm(0), imm(8), CIO_MALFORMED);
                  b.load(Space::block, imm(4), 4);
              }),
              "");
    EXPECT_PROBLEM("no range check", [](Builder& b) {
        b.check_range(Space::state, imm(0), imm(8), CIO_MALFORMED);
        b.load(Space::block, imm(0), 8);
    });
}

TEST(Validate, AProgramForLengthsRepliesOneNumber) {
    const auto with = [](std::vector<ReplyPart> parts, bool nested, bool udp = false) {
        return problem_of([](Builder&) {},
                          [&](Module& m) {
                              Builder b("s.length", ProgramKind::handler);
                              const auto reply = [&] { b.add(Reply{parts}); };
                              nested ? b.if_(b.input(Input::block_length), reply) : reply();
                              m.programs.push_back(b.finish());
                              Service service;
                              service.name = "s";
                              (udp ? service.udp_framing : service.tcp_framing).length =
                                  static_cast<std::int32_t>(m.programs.size() - 1);
                              m.services = {service};
                          });
    };
    const ReplyPart number{Format::u64le, imm(7), {}}, digits{Format::dec, imm(7), {}};
    EXPECT_EQ(with({number}, false), "");
    EXPECT_EQ(with({number}, true), "");
    for (const bool nested : {false, true}) {
        EXPECT_EQ(with({}, nested), "service s: a program for lengths that replies something else");
        EXPECT_EQ(with({digits}, nested), "service s: a program for lengths that replies something else");
        EXPECT_EQ(with({number, number}, nested), "service s: a program for lengths that replies something else");
    }
    EXPECT_EQ(with({number}, false, true), "service s: datagrams whose length is computed");
}

TEST(Validate, AnIndexIsOneName) {
    const auto with = [](const std::string& index) {
        return problem_of([](Builder&) {}, [&](Module& m) { m.files[0].index = index; });
    };
    for (const std::string& index :
         {std::string(), std::string("index.html"), std::string("..."), std::string(255, 'a')})
        EXPECT_EQ(with(index), "") << index;
    for (const std::string& index : {std::string("."), std::string(".."), std::string("a/b"), std::string("/"),
                                     std::string("a\0b", 3), std::string(256, 'a')})
        EXPECT_EQ(with(index), "file class pages: an index that is no file's name") << index;
}

TEST(Validate, ACheckCoversConstantDistancesFromItsOffset) {
    auto at = [](std::uint64_t distance) {
        return problem_of([&](Builder& b) {
            Operand base = b.arg(0);
            b.check_range(Space::block, b.binary(BinOp::add, base, imm(100)), imm(16), CIO_MALFORMED);
            b.load(Space::block, b.binary(BinOp::add, base, imm(distance)), 4);
        });
    };
    EXPECT_EQ(at(100), "");
    EXPECT_EQ(at(112), "");
    EXPECT_NE(at(113), "");
    EXPECT_NE(at(99), "");
}

TEST(Validate, ACheckInOneBranchCoversNothingAfterIt) {
    EXPECT_PROBLEM("no range check", [](Builder& b) {
        b.if_(b.arg(0), [&] { b.check_range(Space::block, imm(0), imm(8), CIO_MALFORMED); });
        b.load(Space::block, imm(0), 8);
    });
    EXPECT_EQ(problem_of([](Builder& b) {
                  b.if_(
                      b.arg(0), [&] { b.check_range(Space::block, imm(0), imm(8), CIO_MALFORMED); },
                      [&] { b.add(Fail{CIO_NOT_FOUND}); });
                  b.if_(b.arg(0), [&] { b.add(End{}); });
              }),
              "");
    EXPECT_PROBLEM("no range check", [](Builder& b) {
        b.loop(b.arg(0), 4, CIO_MALFORMED,
               [&](Operand) { b.check_range(Space::block, imm(0), imm(8), CIO_MALFORMED); });
        b.load(Space::block, imm(0), 8);
    });
}

TEST(Validate, ACheckOfAVariableCoversOnlyItsValueThen) {
    EXPECT_PROBLEM("no range check", [](Builder& b) {
        Reg v = b.variable(imm(0));
        b.assign(v, b.arg(0));
        b.check_range(Space::block, Operand::reg(v), imm(8), CIO_MALFORMED);
        b.assign(v, b.binary(BinOp::mul, Operand::reg(v), imm(2)));
        b.load(Space::block, Operand::reg(v), 8);
    });
    EXPECT_PROBLEM("no range check", [](Builder& b) {
        Reg v = b.variable(b.arg(0));
        b.check_range(Space::block, Operand::reg(v), imm(8), CIO_MALFORMED);
        b.loop(imm(3), 3, CIO_MALFORMED, [&](Operand) {
            b.load(Space::block, Operand::reg(v), 8);
            b.assign(v, b.binary(BinOp::add, Operand::reg(v), imm(8)));
        });
    });
}

TEST(Validate, ASliceOfUnknownLengthNeedsACheckOfThatLength) {
    EXPECT_PROBLEM("no range check", [](Builder& b) {
        Operand length = b.arg(0);
        b.check_range(Space::block, imm(0), imm(64), CIO_MALFORMED);
        b.hash(HashAlgo::fnv1a, {Space::block, imm(0), length}, imm(0), 64);
    });
    EXPECT_EQ(problem_of([](Builder& b) {
                  Operand length = b.arg(0);
                  b.check_range(Space::block, imm(0), length, CIO_MALFORMED);
                  b.hash(HashAlgo::fnv1a, {Space::block, imm(0), length}, imm(0), 64);
              }),
              "");
}

TEST(Validate, TheWholeBlockNeedsNoCheck) {
    auto hash = [](std::uint64_t offset) {
        return problem_of([&](Builder& b) {
            b.hash(HashAlgo::fnv1a, {Space::block, imm(offset), b.input(Input::block_length)}, imm(0), 64);
        });
    };
    EXPECT_EQ(hash(0), "");
    EXPECT_NE(hash(1), "");
}

TEST(Validate, ConstantAccessesOfFixedSpaces) {
    EXPECT_EQ(problem_of([](Builder& b) { b.load(Space::state, imm(56), 8); }), "");
    EXPECT_PROBLEM("no range check", [](Builder& b) { b.load(Space::state, imm(57), 8); });
    EXPECT_PROBLEM("no range check", [](Builder& b) { b.add(StoreState{imm(64), 1, imm(0)}); });
    EXPECT_PROBLEM("not constant", [](Builder& b) { b.add(StoreState{b.arg(0), 1, imm(0)}); });
    EXPECT_EQ(problem_of([](Builder& b) { b.load(Space::literal, imm(0), 7); }), "");
    EXPECT_PROBLEM("no range check", [](Builder& b) { b.load(Space::literal, imm(0), 8); });
    EXPECT_PROBLEM("no range check",
                   [](Builder& b) { b.add(CopyToState{imm(60), {Space::literal, imm(0), imm(5)}, 8}); });
}

TEST(Validate, RegistersAreWrittenBeforeTheyAreRead) {
    EXPECT_PROBLEM("read before", [](Builder& b) { b.unary(UnOp::neg, Operand::reg(b.new_reg())); });
    EXPECT_PROBLEM("read before", [](Builder& b) {
        Reg r = b.new_reg();
        b.if_(b.arg(0), [&] { b.assign(r, imm(1)); });
        b.unary(UnOp::neg, Operand::reg(r));
    });
    EXPECT_EQ(problem_of([](Builder& b) {
                  Reg r = b.new_reg();
                  b.if_(b.arg(0), [&] { b.assign(r, imm(1)); }, [&] { b.assign(r, imm(2)); });
                  b.unary(UnOp::neg, Operand::reg(r));
              }),
              "");
    EXPECT_EQ(problem_of([](Builder& b) {
                  Reg r = b.new_reg();
                  b.if_(b.arg(0), [&] { b.assign(r, imm(1)); }, [&] { b.add(Fail{CIO_NOT_FOUND}); });
                  b.unary(UnOp::neg, Operand::reg(r));
              }),
              "");
    EXPECT_PROBLEM("read before", [](Builder& b) {
        Operand in_loop;
        b.loop(imm(2), 2, CIO_MALFORMED, [&](Operand i) { in_loop = b.unary(UnOp::neg, i); });
        b.unary(UnOp::neg, in_loop);
    });
    EXPECT_PROBLEM("register out of range", [](Builder& b) { b.unary(UnOp::neg, Operand::reg(100)); });
}

TEST(Validate, LoopCountersBelongToTheirLoop) {
    EXPECT_PROBLEM("written twice", [](Builder& b) {
        b.loop(imm(2), 2, CIO_MALFORMED, [&](Operand i) { b.assign(static_cast<Reg>(i.value), imm(0)); });
    });
    EXPECT_PROBLEM("read before", [](Builder& b) {
        Operand counter;
        b.loop(imm(2), 2, CIO_MALFORMED, [&](Operand i) { counter = i; });
        b.unary(UnOp::neg, counter);
    });
    EXPECT_PROBLEM("writes its count, r0", [](Builder& b) {
        const Reg count = b.variable(imm(2));
        b.loop(Operand::reg(count), 2, CIO_MALFORMED,
               [&](Operand) { b.if_(imm(1), [&] { b.assign(count, imm(0)); }); });
    });
    EXPECT_PROBLEM("loop bound", [](Builder& b) { b.loop(imm(2), CIO_MAX_BLOCK + 1, CIO_MALFORMED, [](Operand) {}); });
    EXPECT_PROBLEM("outside of a loop", [](Builder& b) { b.add(Break{}); });
}

TEST(Validate, BoundsOfWorkAndSize) {
    EXPECT_PROBLEM("instructions", [](Builder& b) {
        b.loop(imm(65536), 65536, CIO_MALFORMED,
               [&](Operand) { b.loop(imm(4096), 4096, CIO_MALFORMED, [](Operand) {}); });
    });
    EXPECT_PROBLEM("nested deeper", [](Builder& b) {
        std::function<void(std::uint32_t)> nest = [&](std::uint32_t left) {
            if (left > 0) b.if_(imm(1), [&] { nest(left - 1); });
        };
        nest(kMaxDepth + 1);
    });
    EXPECT_PROBLEM("variables", [](Builder& b) {
        for (std::uint32_t i = 0; i <= kMaxVars; i++) b.assign(b.variable(imm(0)), imm(1));
    });
    EXPECT_PROBLEM(
        "after the end", [](Builder& b) { b.add(End{}); },
        [](Module& m) { m.programs[1].body.push_back(Stmt{{}, End{}}); });
}

TEST(Validate, WhatProgramsMayDoDependsOnTheirKind) {
    EXPECT_PROBLEM("unknown step", [](Builder& b) { b.add(Next{1, 0, imm(0), imm(1), imm(0)}); });
    EXPECT_PROBLEM("unknown file", [](Builder& b) { b.add(Next{0, 1, imm(0), imm(1), imm(0)}); });
    EXPECT_PROBLEM("outside of a shadow",
                   [](Builder& b) { b.add(Prefetch{PrefetchKind::same, 0, {}, imm(0), imm(1), {}}); });
    EXPECT_PROBLEM("outside of a handler", [](Builder& b) { b.add(Reply{}); });
    EXPECT_PROBLEM("outside of a handler", [](Builder& b) { b.add(Skip{imm(1)}); });
    EXPECT_PROBLEM("wrong kind", [](Builder& b) { b.add(Return{ResultKind::scalar, imm(1), {}}); });
    EXPECT_PROBLEM("argument slot", [](Builder& b) { b.arg(3); });
    EXPECT_PROBLEM("unknown outcome", [](Builder& b) { b.add(Fail{CIO_OK}); });
    EXPECT_PROBLEM("unknown outcome", [](Builder& b) { b.add(Fail{CIO_USER + 1}); });
    EXPECT_PROBLEM("width", [](Builder& b) { b.load(Space::state, imm(0), 9); });
}

TEST(Validate, TheModulesTables) {
    auto nothing = [](Builder&) {};
    EXPECT_PROBLEM("two roles", nothing, [](Module& m) { m.chains[0].steps.push_back({"again", 1}); });
    EXPECT_PROBLEM("another kind", nothing, [](Module& m) {
        m.chains[0].steps[0].program = 0;
        m.chains[0].entry = 1;
    });
    EXPECT_PROBLEM("does not exist", nothing, [](Module& m) { m.chains[0].steps[0].program = 7; });
    EXPECT_PROBLEM("nothing uses it", nothing, [](Module& m) { m.programs.push_back(m.programs[1]); });
    EXPECT_PROBLEM("argument slots", nothing, [](Module& m) { m.chains[0].arg_slots = CIO_MAX_ARGS + 1; });
    EXPECT_PROBLEM("bytes of state", nothing, [](Module& m) { m.chains[0].state_bytes = CIO_MAX_STATE + 1; });
    EXPECT_PROBLEM("initial state", nothing, [](Module& m) { m.chains[0].initial_state.resize(3); });
    EXPECT_PROBLEM("priority class", nothing, [](Module& m) { m.chains[0].priority_class = 0; });
    EXPECT_PROBLEM("file class", nothing, [](Module& m) { m.chains[0].params[0].file_class = 1; });
    EXPECT_PROBLEM("bytes of arguments", nothing, [](Module& m) { m.chains[0].params[2].max = CIO_MAX_ARG_BYTES + 1; });
    EXPECT_PROBLEM("header field", nothing, [](Module& m) { m.chains[0].header_args.push_back({0, 0, 0}); });
    EXPECT_PROBLEM("batch", nothing, [](Module& m) { m.batch.min = 0; });
}

}  // namespace
}  // namespace chainio::ir::test
