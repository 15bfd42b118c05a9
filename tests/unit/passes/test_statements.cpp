// Statements, expressions, state, and what a chain's programs do around them.
#include <algorithm>
#include <limits>

#include "tests/unit/passes/spec.h"

namespace chainio::passes::test {
namespace {

std::string value(const std::string& expression) { return returning("", "u64", "return " + expression); }

TEST(Statements, Arithmetic) {
    EXPECT_EQ(Spec(value("key / 3 * 100 + key % 3")).scalar("c.s", {}, with_key(11)), 302u);
    EXPECT_EQ(Spec(value("(key << 4 | 3) ^ 1 & ~0")).scalar("c.s", {}, with_key(2)), 34u);
    EXPECT_EQ(Spec(value("key as u8 as u64")).scalar("c.s", {}, with_key(0x1ff)), 255u);
    EXPECT_EQ(Spec(value("key as i8 as u64")).scalar("c.s", {}, with_key(0x1ff)), ~std::uint64_t{0});
    EXPECT_EQ(Spec(value("key as u8 as i8 as u64")).scalar("c.s", {}, with_key(0x1ff)), ~std::uint64_t{0});
    EXPECT_EQ(Spec(value("key as i24 as u64")).scalar("c.s", {}, with_key(0x1ffffff)), ~std::uint64_t{0});
    EXPECT_EQ(Spec(value("((key as i64) >> 2) as u64")).scalar("c.s", {}, with_key(~std::uint64_t{7})),
              ~std::uint64_t{1});
    EXPECT_EQ(Spec(value("(key as i64) < 0 ? 1 : 2")).scalar("c.s", {}, with_key(~std::uint64_t{0})), 1u);
    EXPECT_EQ(Spec(value("key in (3, 5) ? min(key, 4) : max(key, 40)")).scalar("c.s", {}, with_key(5)), 4u);
    EXPECT_EQ(Spec(value("key in (3, 5) ? min(key, 4) : max(key, 40)")).scalar("c.s", {}, with_key(6)), 40u);
    EXPECT_EQ(Spec(value("10 / key")).run("c.s", {}, with_key(0)).names, "malformed");
    EXPECT_EQ(Spec(value("10 % key")).run("c.s", {}, with_key(0)).names, "malformed");
}

TEST(Statements, OnlyTheTakenSideIsEvaluated) {
    Spec cond(value("key == 0 ? 7 : block.record(R, 0).v as u64") + "record R { v: u8 }\n");
    EXPECT_EQ(cond.scalar("c.s", {}, with_key(0)), 7u);
    EXPECT_EQ(cond.run("c.s", {}, with_key(1)).names, "malformed");
    EXPECT_EQ(cond.scalar("c.s", {9}, with_key(1)), 9u);
    Spec both(value("key != 0 && 10 / key == 5 ? 1 : 0"));
    EXPECT_EQ(both.scalar("c.s", {}, with_key(0)), 0u);
    EXPECT_EQ(both.scalar("c.s", {}, with_key(2)), 1u);
    Spec either(value("key == 0 || 10 / key == 5 ? 1 : 0"));
    EXPECT_EQ(either.scalar("c.s", {}, with_key(0)), 1u);
    EXPECT_EQ(either.scalar("c.s", {}, with_key(3)), 0u);
}

// What is taken for the longest that a slice may be is what a hash of it may look at: one that is longer would
// overflow.
TEST(Statements, NoSliceIsLongerThanItsBound) {
    Block block(1000);
    for (std::size_t i = 0; i < block.size(); i++) block[i] = static_cast<std::uint8_t>(i * 7);
    block[3] = 0xff;
    const auto same = [&](const std::string& high, std::uint64_t key, std::uint64_t length, std::uint64_t from = 0) {
        const Spec spec(
            returning("record S { v: i8 }", "u64", "return fnv1a(b[" + std::to_string(from) + ".." + high + "])"));
        std::uint64_t hash = 0xcbf29ce484222325u;
        for (std::uint64_t i = from; i < from + length; i++) hash = (hash ^ block[i]) * 0x100000001b3u;
        EXPECT_EQ(spec.scalar("c.s", block, with_key(key)), hash) << high << " of " << key;
    };
    same("2 + (key + 1)", 3, 4, 2);
    same("2 + (key - 1)", 300, 299, 2);
    same("key + 4", 20, 22, 2);
    same("(key % 0x8000000000000001) * 2", 5, 10);
    same("10 - (block.record(S, 3).v as u64)", 0, 11);
    same("(key < 100 ? key : 8)", 50, 50);
    same("(key < 8 ? 100 : key)", 7, 100);
    same("(key & 15) >> (key >> 32)", 15, 15);
    same("(key & 15) / (key >> 32)", (1ULL << 32) + 15, 15);
    same("(key & 255) % 200", 199, 199);
    same("max(key & 15, 9)", 12, 12);
    same("max(key & 255, 9)", 200, 200);
    same("key - 5", 205, 200);
    same("10 - (key as i8 as u64)", 0xff, 11);
}

TEST(Statements, ASideThatDoesNotEndLeavesNothingBehind) {
    const std::string record = "record R { n: u8  a: bytes(n)  v: u8 }\n";
    const Spec spec(returning(record, "u64",
                              "let r = block.record(R, 0)\nvar x = 0\n"
                              "if key == 0 { x = r.n as u64 } else { x = r.v as u64 }\nreturn x * 256 + r.v"));
    EXPECT_EQ(spec.scalar("c.s", {1, 2, 3}, with_key(0)), 0x103u);
    EXPECT_EQ(spec.scalar("c.s", {1, 2, 3}, with_key(1)), 0x303u);
}

TEST(Statements, ConstantsAreComputedAsARunComputes) {
    const auto is = [](const std::string& expression, std::int64_t result) {
        EXPECT_EQ(Spec(returning("", "i64", "return " + expression)).scalar("c.s", {}, {}),
                  static_cast<std::uint64_t>(result))
            << expression;
    };
    is("-7 >> 1", -4);
    is("((3 as i64) - 8) >> 1", -3);
    is("(3 as i64) - 8 < 2 ? 1 : 0", 1);
    is("((17 as u64) % 5) as i64", 2);
    is("((17 as u64) / 5) as i64", 3);
    is("200 as i8", -56);
    is("0x800000 as i24", -0x800000);
    is("~(-8)", 7);
    is("~(5 as u8) as i64", -6);
    is("((5 as u64) - 6) as i64", -1);
    is("(1 as u64 << 63) as i64", std::numeric_limits<std::int64_t>::min());
}

TEST(Statements, WhatIsComputedOfAConstantHas64Bits) {
    const Spec spec(returning("", "bytes(max 64)", "emit -(5 as i8), ~(5 as u8), (5 as u8) + 1, 5 as u8\nreturn"));
    EXPECT_EQ(spec.run("c.s", {}).out.size(), 8u + 8 + 8 + 1);
}

// A name for one of two values may be what only one of them is sure to be.
TEST(Statements, AMatchOfAChoiceCoversWhatBothSidesMayBe) {
    const Spec spec(returning("record R { k: u8 in { 1 leaf, 2 inner } }\n", "u64",
                              "let r = block.record(R, 0)\nvar k = r.k\nif key > 1 { k = 9 }\n"
                              "match (key == 0 ? r.k : k) { leaf { return 1 }  inner { return 2 } }\nreturn 3"));
    EXPECT_EQ(spec.scalar("c.s", {2}, with_key(0)), 2u);
    EXPECT_EQ(spec.scalar("c.s", {2}, with_key(1)), 2u);
    EXPECT_EQ(spec.scalar("c.s", {2}, with_key(2)), 3u);
}

TEST(Statements, BytesAndTheirNumbers) {
    Block block = bytes("0123456789");
    EXPECT_EQ(Spec(value("b[2..4].uint_be()")).scalar("c.s", block), 0x3233u);
    EXPECT_EQ(Spec(value("b[2..4].uint_le()")).scalar("c.s", block), 0x3332u);
    EXPECT_EQ(Spec(value("b[8..10].decimal()")).scalar("c.s", block), 89u);
    EXPECT_EQ(Spec(value("b.byte(3) as u64")).scalar("c.s", block), std::uint64_t{'3'});
    EXPECT_EQ(Spec(value("b[key..].length")).scalar("c.s", block, with_key(4)), 6u);
    EXPECT_EQ(Spec(value("crc32c(b[1..10])")).scalar("c.s", block), 0xe3069283u);
    EXPECT_EQ(Spec(value("b[0..3] < \"0123\" ? 1 : 0")).scalar("c.s", block), 1u);
    EXPECT_EQ(Spec(value("b[0..4] >= \"0123\" ? 1 : 0")).scalar("c.s", block), 1u);
    for (std::uint64_t out : {11u, 200u}) {
        EXPECT_EQ(Spec(value("b[key..].length")).run("c.s", block, with_key(out)).names, "malformed");
        EXPECT_EQ(Spec(value("b.byte(key) as u64")).run("c.s", block, with_key(out)).names, "malformed");
    }
    EXPECT_EQ(Spec(value("b.byte(key) as u64")).run("c.s", block, with_key(10)).names, "malformed");
    EXPECT_EQ(Spec(value("b[5..key].length")).run("c.s", block, with_key(4)).names, "malformed");
    EXPECT_EQ(Spec(value("b[0..key].uint_be()")).run("c.s", block, with_key(9)).names, "malformed");
}

TEST(Statements, BytesAreLookedThroughForOne) {
    const Block block = bytes("path/of/it");
    const auto found = [](const std::string& what) {
        return Spec(returning("", "u64", "let i = " + what + " else fail absent\n    return i"));
    };
    EXPECT_EQ(found("b.find(\"/\")").scalar("c.s", block), 4u);
    EXPECT_EQ(found("b.find(0x2f)").scalar("c.s", block), 4u);
    EXPECT_EQ(found("b.find(key as u8)").scalar("c.s", block, with_key(0x100 + 'f')), 6u);
    EXPECT_EQ(found("b[5..].find(\"/\")").scalar("c.s", block), 2u);
    EXPECT_EQ(found("\"abc\".find(b[1])").scalar("c.s", block), 0u);
    EXPECT_EQ(found("b.find(\"x\")").run("c.s", block).names, "absent");
    EXPECT_EQ(found("b[0..4].find(\"/\")").run("c.s", block).names, "absent");
    EXPECT_EQ(found("b[key..].find(\"t\")").scalar("c.s", block, with_key(9)), 0u);
    EXPECT_EQ(found("b[key..].find(\"t\")").run("c.s", block, with_key(10)).names, "absent");
    EXPECT_EQ(found("\"\".find(\"t\")").run("c.s", block).names, "absent");
}

TEST(Statements, NumbersAreAppendedAsTheirBytes) {
    const auto appended = [](const std::string& body, std::uint64_t key) {
        Spec spec(returning("", "bytes(max 40)", "var k: bytes(max 12)\n" + body + "\n return k"));
        return spec.run("c.s", bytes("abcdefgh"), with_key(key));
    };
    EXPECT_EQ(appended("k.append(key as u16)  k.append(b[0])  k.append(\"x\")", 0x1234).slice, bytes("\x34\x12"
                                                                                                     "ax"));
    EXPECT_EQ(appended("k.append((key as i64) as i24)", ~std::uint64_t{1}).slice, bytes("\xfe\xff\xff"));
    EXPECT_EQ(appended("for i in range(65, 69) { k.append(i as u8) }", 0).slice, bytes("ABCD"));
    EXPECT_EQ(appended("k.append(key)  k.append(key as u32)", 0).slice, Block(12));
    EXPECT_EQ(appended("k.append(key)  k.append(key)", 0).names, "overflow");
    // Several variables, and one of the state's, have the bytes of their own numbers.
    Spec two(returning("", "bytes(max 40)",
                       "var k: bytes(max 4)  var l: bytes(max 4)\n"
                       "k.append(b[0])  l.append(b[1])  k.append(b[2])  k.append(l)\n return k"));
    EXPECT_EQ(two.run("c.s", bytes("abc")).slice, bytes("acb"));
}

TEST(Statements, ResultsOfBytes) {
    Spec spec(returning("", "bytes(max 4)", "return b[1..key]"));
    EXPECT_EQ(spec.run("c.s", bytes("abcdefgh"), with_key(4)).slice, bytes("bcd"));
    EXPECT_EQ(spec.run("c.s", bytes("abcdefgh"), with_key(6)).names, "overflow");
    Spec chosen(returning("", "bytes(max 32)", "return name"));
    auto named = [&](std::uint64_t key) {
        return chosen.run("c.s", {}, [&](cio_io& io, std::uint8_t* base) {
            io.args[0] = key;
            io.args[2] = 3;
            std::ranges::copy(bytes("arg"), base + chosen.artifact().layout.arg_bytes_offset);
        });
    };
    Spec either(returning("", "bytes(max 32)", "return key == 0 ? b[0..2] : b[1..4]"));
    EXPECT_EQ(either.run("c.s", bytes("abcdef"), with_key(0)).slice, bytes("ab"));
    EXPECT_EQ(either.run("c.s", bytes("abcdef"), with_key(1)).slice, bytes("bcd"));
    EXPECT_EQ(either.run("c.s", bytes("ab"), with_key(1)).names, "malformed");
    EXPECT_EQ(either.run("c.s", bytes("ab"), with_key(0)).names, "ok");
    EXPECT_EQ(named(1).slice, bytes("arg"));
    EXPECT_EQ(chosen
                  .run("c.s", {},
                       [](cio_io& io, std::uint8_t*) {
                           io.args[0] = 1;
                           io.args[2] = 33;
                       })
                  .names,
              "bad_argument");
}

TEST(Statements, MatchTakesOneArm) {
    Spec spec(returning(
        "", "u64", "match key { 1, 2 { return 12 }  3 { var x = 4  x = x + key  return x }  else fail not_found }"));
    EXPECT_EQ(spec.scalar("c.s", {}, with_key(1)), 12u);
    EXPECT_EQ(spec.scalar("c.s", {}, with_key(2)), 12u);
    EXPECT_EQ(spec.scalar("c.s", {}, with_key(3)), 7u);
    EXPECT_EQ(spec.run("c.s", {}, with_key(4)).names, "not_found");
}

TEST(Statements, LongMatchesStayFlat) {
    std::string arms;
    for (int i = 0; i < 128; i++) arms += std::to_string(i) + " { return " + std::to_string(i * 7) + " } ";
    Spec spec(returning("", "u64", "match key { " + arms + " else fail not_found }"));
    EXPECT_EQ(spec.scalar("c.s", {}, with_key(127)), 127u * 7);
    EXPECT_EQ(spec.run("c.s", {}, with_key(128)).names, "not_found");
}

TEST(Statements, ReasonsOfOnesOwn) {
    Spec spec(returning("", "u64", "if key == 1 { fail wrong_door }  if key == 2 { fail no_door }  return key"));
    EXPECT_EQ(spec.run("c.s", {}, with_key(1)).names, "wrong_door");
    EXPECT_EQ(spec.run("c.s", {}, with_key(2)).names, "no_door");
}

const char* const kChain = R"(
files pages = "*.db" { header Head }
record Head { magic: u32be  size: u16le  let half = size / 2 }
chain c(db: file pages, other: file pages, key: u64, seed: bytes(max 8)) -> bytes(max 24) hops 4 {
  state { depth: u16 = 3  sum: i24  word: bytes(max 8) = seed  fix: bytes(max 8) = "ab" }
  step first(b: block at key * 2 for db.size in other) {
    depth = depth + 1
    sum = -5
    word.append(b[0..2])
    next second at 100 for 10 tag 77
    goto second at db.half in db
  }
  step second(b: block at 0 for other.size in db) {
    word.truncate(1)
    fix = word
    emit depth, sum, word, fix
    if block.tag == 77 { emit block.offset }
  }
  done { emit 255 as u8  return }
}
)";

TEST(Chains, TheEntryQueuesTheFirstRead) {
    Spec spec(kChain);
    const ir::Chain& c = spec.chain();
    EXPECT_EQ(c.arg_slots, 6u)
        << "key, two for seed, and the header fields that are used: size of both files, half of one";
    ASSERT_EQ(c.header_args.size(), 3u);
    Ran ran = spec.run("c.entry", {}, [&](cio_io& io, std::uint8_t* base) {
        io.args[0] = 21;
        io.args[1] = 0;
        io.args[2] = 3;
        for (const ir::HeaderArg& h : c.header_args) io.args[h.slot] = 1000u + 10u * h.file + h.field;
        std::ranges::copy(bytes("see"), base + spec.artifact().layout.arg_bytes_offset);
    });
    ASSERT_EQ(ran.io.next_count, 1u);
    EXPECT_EQ(ran.io.next[0].offset, 42u);
    EXPECT_EQ(ran.io.next[0].length, 1001u) << "field 1 of file 0";
    EXPECT_EQ(ran.io.next[0].step, 0);
    EXPECT_EQ(ran.io.next[0].file, 1);

    ran.io.args[0] = 21;
    Ran first = spec.run_on(ran, "c.first", bytes("xyz"));
    ASSERT_EQ(first.names, "ok");
    ASSERT_EQ(first.io.next_count, 2u);
    EXPECT_EQ(first.io.next[0].offset, 100u);
    EXPECT_EQ(first.io.next[0].length, 10u);
    EXPECT_EQ(first.io.next[0].tag, 77u);
    EXPECT_EQ(first.io.next[0].file, 0);
    EXPECT_EQ(first.io.next[1].offset, 1002u) << "field 2 (derived) of file 0";
    EXPECT_EQ(first.io.next[1].length, 1011u) << "the step's own length";

    Ran second = spec.run_on(first, "c.second", {});
    ASSERT_EQ(second.names, "ok");
    EXPECT_EQ(second.out, (Block{4, 0, 0xfb, 0xff, 0xff, 's', 's'}));
    Ran done = spec.run_on(second, "c.done", {});
    EXPECT_EQ(done.out.back(), 255);
    EXPECT_EQ(done.io.finished, 1u);
}

TEST(Chains, StateOverflows) {
    Spec spec(kChain);
    Ran full = spec.run("c.first", bytes("xyz"), [&](cio_io&, std::uint8_t* base) {
        std::uint8_t* state = base + spec.artifact().layout.state_offset;
        for (std::uint32_t at = 4; at < 12; at += 4) state[at] = 7;  // wherever `word`'s length is
        state[5] = 0;
    });
    EXPECT_EQ(full.names, "overflow");
    EXPECT_EQ(full.io.next_count, 0u);
}

TEST(Chains, TheHeaderProgramEmitsEveryInteger) {
    Spec spec(kChain);
    EXPECT_EQ(spec.artifact().module.files[0].header_fields, (std::vector<std::string>{"magic", "size", "half"}));
    EXPECT_EQ(spec.artifact().module.files[0].header_bytes, 6u);
    Ran ran = spec.run("header.pages", {1, 2, 3, 4, 8, 1});
    EXPECT_EQ(ran.out, (Block{4, 3, 2, 1, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0, 0, 0, 132, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(spec.run("header.pages", {1, 2, 3, 4, 8}).names, "malformed");
}

TEST(Chains, BytesOfAStepAreEmptyWhenItStarts) {
    Spec spec(returning("", "u64",
                        "var k: bytes(max 4)\n k.append(b[0..2])\n k.append(b[1..3])\n if k != \"abbc\" { fail "
                        "not_found }\n return k.length"));
    EXPECT_EQ(spec.scalar("c.s", bytes("abc"),
                          [&](cio_io&, std::uint8_t* base) { base[spec.artifact().layout.state_offset] = 3; }),
              4u);
}

TEST(Chains, FunctionsAreExpanded) {
    Spec spec(
        returning("fn twice(x) = x + x\nfn both(a, c) { let s = twice(a)  s * c }\nrecord R { v: u8 }\nfn value_of(r) "
                  "= r.v as u64",
                  "u64", "return both(key + 1, 3) + value_of(block.record(R, 0))"));
    EXPECT_EQ(spec.scalar("c.s", {9}, with_key(4)), 39u);
}

}  // namespace
}  // namespace chainio::passes::test
