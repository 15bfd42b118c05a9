// Each operation of the IR, as ir.h defines it.
#include <random>
#include <span>

#include "compiler/ir/hash.h"
#include "tests/unit/ir/ir_fixture.h"

namespace chainio::ir::test {
namespace {

// Runs a step that computes one value and returns it.
std::uint64_t value_of(const std::vector<std::uint8_t>& block, const std::function<Operand(Builder&)>& build) {
    Ran ran = run_step(
        block, [&](Builder& b) { b.add(Return{ResultKind::scalar, build(b), {}}); },
        [](Module& m) { m.chains[0].result = ResultKind::scalar; });
    EXPECT_EQ(ran.io.outcome, CIO_OK);
    EXPECT_EQ(ran.io.finished, 1u);
    EXPECT_EQ(ran.io.result_kind, CIO_RESULT_SCALAR);
    return ran.io.result;
}
std::uint32_t outcome_of(const std::vector<std::uint8_t>& block, const std::function<void(Builder&)>& build) {
    return run_step(block, build).io.outcome;
}
constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

TEST(Interpret, LoadsEveryWidthAndByteOrder) {
    std::vector<std::uint8_t> block = {0x81, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0xf8};
    auto load = [&](std::uint64_t offset, std::uint8_t width, bool big, bool is_signed) {
        return value_of(block, [&](Builder& b) {
            b.check_range(Space::block, imm(offset), imm(width), CIO_MALFORMED);
            return b.load(Space::block, imm(offset), width, big, is_signed);
        });
    };
    EXPECT_EQ(load(0, 1, false, false), 0x81u);
    EXPECT_EQ(load(0, 1, false, true), 0xffffffffffffff81u);
    EXPECT_EQ(load(0, 2, false, false), 0x0281u);
    EXPECT_EQ(load(0, 2, true, true), 0xffffffffffff8102u);
    EXPECT_EQ(load(0, 3, true, false), 0x810203u);
    EXPECT_EQ(load(5, 3, false, true), 0xfffffffffff80706u);
    EXPECT_EQ(load(0, 8, true, false), 0x81020304050607f8u);
    EXPECT_EQ(load(0, 8, false, false), 0xf807060504030281u);
}

TEST(Interpret, DivisionByZeroIsThatOfBpf) {
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.binary(BinOp::udiv, imm(7), imm(0)); }), 0u);
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.binary(BinOp::umod, imm(7), imm(0)); }), 7u);
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.binary(BinOp::shl, imm(1), imm(65)); }), 2u);
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.binary(BinOp::ashr, imm(kMinusOne), imm(3)); }), kMinusOne);
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.binary(BinOp::slt, imm(kMinusOne), imm(0)); }), 1u);
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.binary(BinOp::ult, imm(kMinusOne), imm(0)); }), 0u);
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.unary(UnOp::bswap16, imm(0xaa1234)); }), 0x3412u);
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.unary(UnOp::sext8, imm(0x180)); }), kMinusOne - 127);
    EXPECT_EQ(value_of({}, [](Builder& b) { return b.select(imm(0), imm(5), imm(6)); }), 6u);
}

struct VarintCase {
    VarintKind kind;
    std::vector<std::uint8_t> bytes;
    std::uint64_t value, length;  // length 0: refused
};
class Varints : public testing::TestWithParam<VarintCase> {};

TEST_P(Varints, AsSpecified) {
    const VarintCase& c = GetParam();
    auto build = [&](Builder& b, bool length) {
        auto [v, n] = b.varint(c.kind, Space::block, imm(0), imm(c.bytes.size()), CIO_USER);
        return length ? n : v;
    };
    if (c.length == 0) {
        EXPECT_EQ(outcome_of(c.bytes, [&](Builder& b) { build(b, false); }), CIO_USER);
        return;
    }
    EXPECT_EQ(value_of(c.bytes, [&](Builder& b) { return build(b, false); }), c.value);
    EXPECT_EQ(value_of(c.bytes, [&](Builder& b) { return build(b, true); }), c.length);
}
INSTANTIATE_TEST_SUITE_P(
    All, Varints,
    testing::Values(VarintCase{VarintKind::leb128, {0x7f}, 127, 1},
                    VarintCase{VarintKind::leb128, {0x80, 0x01}, 128, 2}, VarintCase{VarintKind::leb128, {0x80}, 0, 0},
                    VarintCase{VarintKind::leb128, {255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, kMinusOne, 10},
                    VarintCase{VarintKind::leb128, {255, 255, 255, 255, 255, 255, 255, 255, 255, 2}, 0, 0},
                    VarintCase{VarintKind::leb128, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0}, 0, 0},
                    VarintCase{VarintKind::zigzag, {0x03}, kMinusOne - 1, 1},
                    VarintCase{VarintKind::zigzag, {0x04}, 2, 1}, VarintCase{VarintKind::sqlite, {0x81, 0x00}, 128, 2},
                    VarintCase{VarintKind::sqlite, {255, 255, 255, 255, 255, 255, 255, 255, 255}, kMinusOne, 9},
                    VarintCase{VarintKind::sqlite, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 1, 9},
                    VarintCase{VarintKind::sqlite, {255, 255, 255, 255, 255, 255, 255, 255}, 0, 0}));

TEST(Interpret, AVarintStopsAtItsLimit) {
    std::vector<std::uint8_t> block = {0x80, 0x01, 0x05};
    auto read = [&](std::uint64_t offset, std::uint64_t limit) {
        return outcome_of(block, [&](Builder& b) {
            b.varint(VarintKind::leb128, Space::block, imm(offset), imm(limit), CIO_NOT_FOUND);
        });
    };
    EXPECT_EQ(read(0, 1), CIO_NOT_FOUND);
    EXPECT_EQ(read(0, 2), CIO_OK);
    EXPECT_EQ(read(2, kMinusOne), CIO_OK);
    EXPECT_EQ(read(3, kMinusOne), CIO_NOT_FOUND);
    EXPECT_EQ(read(kMinusOne, kMinusOne), CIO_NOT_FOUND);
}

TEST(Interpret, ComparesAsMemcmpThenByLength) {
    auto block = bytes("abcabdab\xff");
    auto compare = [&](Slice a, Slice c) {
        return value_of(block, [&](Builder& b) {
            b.check_range(Space::block, imm(0), imm(9), CIO_MALFORMED);
            return b.compare(a, c, 16);
        });
    };
    EXPECT_EQ(compare(block_slice(0, 3), block_slice(3, 3)), kMinusOne);
    EXPECT_EQ(compare(block_slice(3, 3), block_slice(0, 3)), 1u);
    EXPECT_EQ(compare(block_slice(0, 2), block_slice(3, 2)), 0u);
    EXPECT_EQ(compare(block_slice(0, 2), block_slice(0, 3)), kMinusOne);
    EXPECT_EQ(compare(block_slice(0, 0), block_slice(0, 0)), 0u);
    EXPECT_EQ(compare(block_slice(8, 1), block_slice(0, 3)), 1u) << "bytes are unsigned";
}

TEST(Interpret, TheHashesAreThePublishedOnes) {
    auto hash = [&](HashAlgo algo, std::string_view text, std::uint64_t seed) {
        return value_of(bytes(text), [&](Builder& b) {
            b.check_range(Space::block, imm(0), imm(text.size()), CIO_MALFORMED);
            return b.hash(algo, block_slice(0, text.size()), imm(seed), 64);
        });
    };
    EXPECT_EQ(hash(HashAlgo::crc32c, "123456789", 0), 0xe3069283u);
    EXPECT_EQ(hash(HashAlgo::crc32c, "6789", hash(HashAlgo::crc32c, "12345", 0)), 0xe3069283u);
    EXPECT_EQ(hash(HashAlgo::fnv1a, "a", 0), 0xaf63dc4c8601ec8cu);
    EXPECT_EQ(hash(HashAlgo::fnv1a, "foobar", 0), 0x85944171f73967e8u);
    EXPECT_EQ(hash(HashAlgo::xxh64, "", 0), 0xef46db3751d8e999u);
    EXPECT_EQ(hash(HashAlgo::xxh64, "abc", 0), 0x44bc2cf5ad770999u);
}

TEST(Interpret, TheProcessorsCrc32cIsTheTables) {
    std::mt19937 random(1);
    std::vector<std::uint8_t> bytes(300);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    for (std::size_t begin = 0; begin < 9; begin++) {
        for (std::size_t length = 0; begin + length < bytes.size(); length += 1 + length / 20) {
            const auto part = std::span<const std::uint8_t>(bytes).subspan(begin, length);
            const auto seed = static_cast<std::uint32_t>(random());
            ASSERT_EQ(crc32c(part, seed), crc32c_by_table(part, seed)) << begin << "+" << length;
        }
    }
}

TEST(Interpret, IntegersOfBytesAndDecimals) {
    auto of_bytes = [&](std::vector<std::uint8_t> block, bool big, bool is_signed) {
        return value_of(block, [&](Builder& b) {
            b.check_range(Space::block, imm(0), imm(block.size()), CIO_MALFORMED);
            Reg r = b.new_reg();
            b.add(IntOfBytes{r, block_slice(0, block.size()), big, is_signed});
            return Operand::reg(r);
        });
    };
    EXPECT_EQ(of_bytes({}, true, true), 0u);
    EXPECT_EQ(of_bytes({0xff, 0x01}, true, true), 0xffffffffffffff01u);
    EXPECT_EQ(of_bytes({0xff, 0x01}, false, true), 0x1ffu);
    auto decimal = [&](std::string_view text) {
        return run_step(bytes(text), [&](Builder& b) {
            b.check_range(Space::block, imm(0), imm(text.size()), CIO_MALFORMED);
            Reg r = b.new_reg();
            b.add(ParseDecimal{r, block_slice(0, text.size()), CIO_BAD_ARGUMENT});
            b.add(Next{0, 0, Operand::reg(r), imm(1), imm(0)});
        });
    };
    EXPECT_EQ(decimal("18446744073709551615").io.next[0].offset, kMinusOne);
    EXPECT_EQ(decimal("007").io.next[0].offset, 7u);
    for (auto bad : {"", "18446744073709551616", "000000000000000000001", "12a", "-1"})
        EXPECT_EQ(decimal(bad).io.outcome, CIO_BAD_ARGUMENT) << bad;
    EXPECT_EQ(outcome_of(std::vector<std::uint8_t>(9),
                         [](Builder& b) {
                             b.check_range(Space::block, imm(0), imm(9), CIO_NOT_FOUND);
                             b.add(IntOfBytes{b.new_reg(), block_slice(0, 9), false, false});
                         }),
              CIO_MALFORMED);
}

TEST(Interpret, RangesAreComparedWithoutWrapping) {
    std::vector<std::uint8_t> block(16);
    auto check = [&](std::uint64_t offset, std::uint64_t length) {
        return outcome_of(block,
                          [&](Builder& b) { b.check_range(Space::block, imm(offset), imm(length), CIO_MALFORMED); });
    };
    EXPECT_EQ(check(0, 16), CIO_OK);
    EXPECT_EQ(check(16, 0), CIO_OK);
    EXPECT_EQ(check(17, 0), CIO_MALFORMED);
    EXPECT_EQ(check(1, 16), CIO_MALFORMED);
    EXPECT_EQ(check(kMinusOne, 2), CIO_MALFORMED);
    EXPECT_EQ(check(2, kMinusOne), CIO_MALFORMED);
}

TEST(Interpret, AFailureTakesBackWhatWasQueued) {
    Ran ran = run_step({}, [](Builder& b) {
        b.add(Next{0, 0, imm(4096), imm(512), imm(7)});
        b.add(EmitInt{imm(1), 8, 64});
        b.add(StoreState{imm(8), 2, imm(0x11223344)});
        b.add(Fail{CIO_USER});
    });
    EXPECT_EQ(ran.io.outcome, CIO_USER);
    EXPECT_EQ(ran.io.next_count, 0u);
    EXPECT_EQ(ran.io.out_length, 0u);
    EXPECT_EQ(ran.state[8], 0x44);
    EXPECT_EQ(ran.state[9], 0x33);
    EXPECT_EQ(ran.state[10], 0) << "only the low two bytes are stored";
}

TEST(Interpret, QueuesReadsUpToTheFanout) {
    auto queue = [](std::uint32_t reads) {
        return run_step({}, [&](Builder& b) {
            b.loop(imm(reads), 20, CIO_MALFORMED, [&](Operand i) { b.add(Next{0, 0, i, imm(512), i}); });
        });
    };
    Ran sixteen = queue(16);
    EXPECT_EQ(sixteen.io.next_count, 16u);
    EXPECT_EQ(sixteen.io.next[15].tag, 15u);
    EXPECT_EQ(sixteen.io.next[15].length, 512u);
    EXPECT_EQ(queue(17).io.outcome, CIO_FANOUT);
    EXPECT_EQ(queue(21).io.outcome, CIO_MALFORMED) << "a count above max fails first";
    EXPECT_EQ(outcome_of({}, [](Builder& b) { b.add(Next{0, 0, imm(0), imm(0), imm(0)}); }), CIO_MALFORMED);
    EXPECT_EQ(outcome_of({}, [](Builder& b) { b.add(Next{0, 0, imm(0), imm(CIO_MAX_BLOCK + 1), imm(0)}); }),
              CIO_MALFORMED);
}

TEST(Interpret, LoopsBreakAndContinue) {
    EXPECT_EQ(value_of({},
                       [](Builder& b) {
                           Reg sum = b.variable(imm(0));
                           b.loop(imm(10), 10, CIO_MALFORMED, [&](Operand i) {
                               b.if_(b.binary(BinOp::eq, i, imm(3)), [&] { b.add(Continue{}); });
                               b.if_(b.binary(BinOp::eq, i, imm(6)), [&] { b.add(Break{}); });
                               b.assign(sum, b.binary(BinOp::add, Operand::reg(sum), i));
                           });
                           return Operand::reg(sum);
                       }),
              0u + 1 + 2 + 4 + 5);
}

TEST(Interpret, EmitsUpToTheLimit) {
    auto emit = [](std::uint32_t limit) {
        return run_step(bytes("block"), [&](Builder& b) {
            b.add(EmitInt{imm(0x0102030405060708), 3, limit});
            b.check_range(Space::block, imm(1), imm(3), CIO_MALFORMED);
            b.add(EmitBytes{block_slice(1, 3), 8, limit});
            b.add(EmitBytes{{Space::literal, imm(0), imm(2)}, 8, limit});
        });
    };
    EXPECT_EQ(emit(8).out, (std::vector<std::uint8_t>{8, 7, 6, 'l', 'o', 'c', 'l', 'i'}));
    EXPECT_EQ(emit(7).io.outcome, CIO_OVERFLOW);
    EXPECT_EQ(emit(2).io.outcome, CIO_OVERFLOW);
}

TEST(Interpret, BytesLongerThanTheOperationTakesOverflow) {
    auto block = bytes("0123456789");
    auto with = [&](const std::function<void(Builder&)>& f) {
        return outcome_of(block, [&](Builder& b) {
            b.check_range(Space::block, imm(0), imm(10), CIO_MALFORMED);
            f(b);
        });
    };
    EXPECT_EQ(with([](Builder& b) { b.find_byte(block_slice(0, 10), imm('5'), 9); }), CIO_OVERFLOW);
    EXPECT_EQ(with([](Builder& b) { b.compare(block_slice(0, 10), block_slice(0, 10), 9); }), CIO_OVERFLOW);
    EXPECT_EQ(with([](Builder& b) { b.compare(block_slice(0, 9), block_slice(0, 10), 9); }), CIO_OK)
        << "the shorter counts";
    EXPECT_EQ(with([](Builder& b) { b.hash(HashAlgo::fnv1a, block_slice(0, 10), imm(0), 9); }), CIO_OVERFLOW);
    EXPECT_EQ(with([](Builder& b) { b.add(CopyToState{imm(0), block_slice(0, 10), 9}); }), CIO_OVERFLOW);
    EXPECT_EQ(with([](Builder& b) { b.add(EmitBytes{block_slice(0, 10), 9, 64}); }), CIO_OVERFLOW);
    EXPECT_EQ(with([](Builder& b) { b.add(EmitBytes{block_slice(0, 10), 10, 64}); }), CIO_OK);
}

TEST(Interpret, FindsABytesFirstPlace) {
    auto find = [](std::uint64_t byte) {
        return value_of(bytes("a,b,c"), [&](Builder& b) {
            b.check_range(Space::block, imm(0), imm(5), CIO_MALFORMED);
            return b.find_byte(block_slice(0, 5), imm(byte), 5);
        });
    };
    EXPECT_EQ(find(','), 1u);
    EXPECT_EQ(find(0x100 + ','), 1u);
    EXPECT_EQ(find('x'), 5u);
}

TEST(Interpret, ReadsArgumentsAndReturnsSlices) {
    Module m = module_with_step(step([](Builder& b) {
        Operand offset = b.arg(1), length = b.arg(2);
        b.check_range(Space::args, offset, length, CIO_BAD_ARGUMENT);
        b.add(Return{ResultKind::slice, {}, {Space::args, offset, length}});
    }));
    m.chains[0].result = ResultKind::slice;
    ASSERT_EQ(validate(m), "");
    Artifact a = artifact_of(m);
    auto with = [&](std::uint64_t offset, std::uint64_t length) {
        return run(a, {}, [&](cio_io& io, std::uint8_t*) {
            io.args[1] = offset;
            io.args[2] = length;
            io.next_count = 0;
        });
    };
    Ran good = with(4, 20);
    EXPECT_EQ(good.io.finished, 1u);
    EXPECT_EQ(good.io.slice_space, CIO_SPACE_ARGS);
    EXPECT_EQ(good.io.slice_offset, 4u);
    EXPECT_EQ(good.io.slice_length, 20u);
    EXPECT_EQ(with(30, 3).io.outcome, CIO_BAD_ARGUMENT);
}

TEST(Interpret, ABlockThatIsTooLongIsRefused) {
    EXPECT_EQ(run_step(std::vector<std::uint8_t>(CIO_MAX_BLOCK), [](Builder&) {}).io.outcome, CIO_OK);
    EXPECT_EQ(run_step(std::vector<std::uint8_t>(CIO_MAX_BLOCK + 1), [](Builder&) {}).io.outcome, CIO_MALFORMED);
}

TEST(Interpret, ReturnDropsQueuedReads) {
    Ran ran = run_step({}, [](Builder& b) {
        b.add(Next{0, 0, imm(0), imm(512), imm(0)});
        b.add(EmitInt{imm(5), 1, 8});
        b.add(Return{});
    });
    EXPECT_EQ(ran.io.finished, 1u);
    EXPECT_EQ(ran.io.next_count, 0u);
    EXPECT_EQ(ran.out, std::vector<std::uint8_t>{5});
}

}  // namespace
}  // namespace chainio::ir::test
