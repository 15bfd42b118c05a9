// Views: where fields are, what is checked when, what happens at the end of the block.
#include "tests/unit/passes/spec.h"

namespace chainio::passes::test {
namespace {

TEST(Records, FixedFields) {
    Spec spec(
        returning("record R { a: u8  b: u16be  c: i24le  _: u8  d: u64le }", "u64",
                  "let r = block.record(R, 1)  if r.c != -2 { fail not_found }  return r.a as u64 + r.b as u64 + r.d"));
    Block block = {99, 1, 0x02, 0x03, 0xfe, 0xff, 0xff, 0, 5, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(spec.scalar("c.s", block), 1u + 0x203 + 5);
    block[4] = 0;
    EXPECT_EQ(spec.run("c.s", block).names, "not_found");
    block.pop_back();
    EXPECT_EQ(spec.run("c.s", block).names, "malformed");
}

TEST(Records, VarintsAndLengthsThatDependOnThem) {
    Spec spec(returning("record E { n: varint_leb128  tail: bytes(n)  m: varint_sqlite  last: u16le }", "u64",
                        "let e = block.record(E, 0)  if e.tail != \"abc\" { fail not_found }  return e.m * 65536 + "
                        "e.last as u64 + e.end"));
    EXPECT_EQ(spec.scalar("c.s", {3, 'a', 'b', 'c', 0x81, 0x00, 0x34, 0x12}), 128u * 65536 + 0x1234 + 8);
    EXPECT_EQ(spec.run("c.s", {3, 'a', 'b', 'x', 0x81, 0x00, 0x34, 0x12}).names, "not_found");
    EXPECT_EQ(spec.run("c.s", {3, 'a', 'b', 'c', 0x81, 0x00, 0x34}).names, "malformed");
    EXPECT_EQ(spec.run("c.s", {0xff, 0xff, 0xff, 0xff, 0x0f, 'c', 0x81, 0x00, 0x34}).names, "malformed");
}

TEST(Records, ExpectationsAreCheckedWhenTheViewIsMade) {
    Spec spec(returning("record R { magic: bytes(2) == \"OK\"  kind: u8 in { 2 two, 5 five }  v: u8 }", "u64",
                        "let r = block.record(R, 0)  return 7"));
    EXPECT_EQ(spec.scalar("c.s", bytes("OK\x02x")), 7u);
    EXPECT_EQ(spec.scalar("c.s", bytes("OK\x05x")), 7u);
    EXPECT_EQ(spec.run("c.s", bytes("OK\x03x")).names, "malformed");
    EXPECT_EQ(spec.run("c.s", bytes("Ok\x02x")).names, "malformed");
}

TEST(Records, FieldsThatAreNotThere) {
    std::string record = "record P { kind: u8  right: u32be when kind == 2  next: u8 }";
    Spec next(returning(record, "u64", "return block.record(P, 0).next as u64"));
    EXPECT_EQ(next.scalar("c.s", {2, 0, 0, 0, 1, 9}), 9u);
    EXPECT_EQ(next.scalar("c.s", {3, 8}), 8u) << "an absent field takes no bytes";
    Spec right(returning(record, "u64", "return block.record(P, 0).right as u64"));
    EXPECT_EQ(right.scalar("c.s", {2, 0, 0, 1, 1, 9}), 257u);
    EXPECT_EQ(right.run("c.s", {3, 0, 0, 1, 1, 9}).names, "malformed");
}

// How long something would be does not say that it is there.
TEST(Records, ALengthThatIsKnownIsThatOfBytesThatAreThere) {
    const std::string record =
        "record In { x: u8  y: u8 }\nrecord R { n: u8  b: bytes(3) when n == 1  v: bytes(n)  c: bytes(2)  inner: In }";
    const auto read = [&](const std::string& value, const Block& block) {
        return Spec(returning(record, "u64", "let r = block.record(R, 0)  return " + value)).run("c.s", block);
    };
    const Block present = {1, 'a', 'b', 'c', 'v', 'c', 'c', 4, 5}, absent = {2, 'v', 'v', 'c'};
    for (const auto& [value, known] : {std::pair{"r.b.length", 3u}, {"r.c.length", 2u}, {"r.inner.size", 2u}}) {
        EXPECT_EQ(read(value, present).io.result, known) << value;
        EXPECT_EQ(read(value, absent).names, "malformed") << value;
    }
    for (const char* value :
         {"block[2..9].length", "block[r.n..r.n + 8].length", "block.record(In, 8).size", "name[0..3].length"}) {
        EXPECT_EQ(read(value, absent).names, "malformed") << value;
    }
}

// Fields of a record ask for it while the record itself is not finished.
TEST(Records, LengthsThatAreKnownOfFieldsInTheirOwnRecord) {
    const std::string record =
        "record In { x: u8  y: u8 }\nrecord Deep { w: u8  low: In }\n"
        "record R { n: u8  b: bytes(3)  c: bytes(2) when n != 9  deep: Deep  let known = b.length + deep.low.size\n"
        "  rest: bytes(n - deep.size - c.length) }";
    const auto read = [&](const std::string& value, const Block& block) {
        return Spec(returning(record, "u64", "let r = block.record(R, 0)  return " + value)).run("c.s", block);
    };
    const Block present = {6, 'b', 'b', 'b', 'c', 'c', 1, 2, 3, 'r'}, absent = {9, 'b', 'b', 'b', 1, 2, 3};
    EXPECT_EQ(read("r.known", present).io.result, 5u);
    EXPECT_EQ(read("r.rest.length", present).io.result, 1u);
    EXPECT_EQ(read("r.known", absent).io.result, 5u);
    EXPECT_EQ(read("r.rest.length", absent).names, "malformed");
}

TEST(Records, CStrings) {
    Spec spec(returning("record R { name: cstr(max 4)  v: u8 }", "u64",
                        "let r = block.record(R, 0)  return r.name.length * 256 + r.v as u64"));
    EXPECT_EQ(spec.scalar("c.s", {'a', 'b', 0, 7}), 2u * 256 + 7);
    EXPECT_EQ(spec.scalar("c.s", {0, 7}), 7u);
    EXPECT_EQ(spec.scalar("c.s", {'a', 'b', 'c', 'd', 0, 7}), 4u * 256 + 7);
    EXPECT_EQ(spec.run("c.s", {'a', 'b', 'c', 'd', 'e', 0, 7}).names, "malformed");
    EXPECT_EQ(spec.run("c.s", {'a', 'b'}).names, "malformed");
}

TEST(Records, BitFieldsNestedRecordsAndDerivedValues) {
    Spec spec(
        returning("record In { x: u8  y: u8 }\nrecord R { flags: bits u16le { low: 3  _: 5  high: 8 }  inner: In  let "
                  "sum = inner.x + inner.y }",
                  "u64",
                  "let r = block.record(R, 0)  return (r.flags.low as u64) * 10000 + (r.flags.high as u64) * 100 + "
                  "(r.sum as u64) + r.inner.offset"));
    EXPECT_EQ(spec.scalar("c.s", {0x05, 0x07, 3, 4}), 5u * 10000 + 700 + 7 + 2);
}

TEST(Records, FieldsAtComputedPlaces) {
    Spec spec(returning(
        "record T { count: u32le at block.length - 4  item: u16le[count max 8] at block.length - 4 - 2 * count }",
        "u64", "let t = block.record(T, 0)  return t.item[1] as u64"));
    EXPECT_EQ(spec.scalar("c.s", {9, 9, 1, 0, 2, 0, 2, 0, 0, 0}), 2u);
    EXPECT_EQ(spec.run("c.s", {9, 9, 1, 0, 2, 0, 9, 0, 0, 0}).names, "malformed") << "more than max";
    EXPECT_EQ(spec.run("c.s", {9, 9, 1, 0, 2, 0, 6, 0, 0, 0}).names, "malformed") << "begins before the block";
    EXPECT_EQ(spec.run("c.s", {9, 9, 1, 0, 2, 0, 1, 0, 0, 0}).names, "malformed") << "no element 1";
}

// What the fields before `_: at N` may take at most, and one byte more.
TEST(Records, SkipsAreComparedWhereWhatIsBeforeThemMayReachFurther) {
    const auto behind = [](const std::string& fields) {
        return Spec(returning("record R { " + fields + "  v: u8 }\n", "u64", "return block.record(R, 0).v"));
    };
    const Spec text = behind("t: cstr(max 8)  _: at 8");
    EXPECT_EQ(text.scalar("c.s", bytes(std::string_view("1234567\0v", 9))), 'v');
    EXPECT_EQ(text.run("c.s", bytes(std::string_view("12345678\0v", 10))).names, "malformed");
    const Spec number = behind("n: varint_leb128  _: at 9");
    EXPECT_EQ(number.scalar("c.s", {128, 128, 128, 128, 128, 128, 128, 128, 1, 7}), 7u);
    EXPECT_EQ(number.run("c.s", {128, 128, 128, 128, 128, 128, 128, 128, 128, 1, 7}).names, "malformed");
    const Spec placed = behind("n: u8  a: bytes(min(n, 3)) at 4  _: at 6");
    EXPECT_EQ(placed.scalar("c.s", {2, 0, 0, 0, 1, 1, 7}), 7u);
    EXPECT_EQ(placed.run("c.s", {3, 0, 0, 0, 1, 1, 7}).names, "malformed");
}

TEST(Records, NoBytesAreLongerThanTheirBound) {
    const Spec spec(returning("record R { n: u8  b: bytes(max(n, 9)) }", "u64",
                              "return fnv1a(block.record(R, 0).b) == fnv1a(b[1..1 + key]) ? 1 : 0"));
    for (const std::uint8_t n : {std::uint8_t{0}, std::uint8_t{9}, std::uint8_t{10}, std::uint8_t{255}}) {
        Block block(300, 5);
        block[0] = n;
        EXPECT_EQ(spec.scalar("c.s", block, with_key(n < 9 ? 9 : n)), 1u) << unsigned{n};
    }
}

TEST(Records, AChoiceBetweenLengthsHasNeither) {
    const Spec spec(returning("record R { a: bytes(2)  b: bytes(4) }", "u64",
                              "let r = block.record(R, 0)\nreturn (key == 0 ? r.a : r.b)[1..].uint_be()"));
    EXPECT_EQ(spec.scalar("c.s", {1, 2, 3, 4, 5, 6}, with_key(0)), 2u);
    EXPECT_EQ(spec.scalar("c.s", {1, 2, 3, 4, 5, 6}, with_key(1)), 0x040506u);
}

// Whatever is added to a place that is far away, it does not come around to the block's begin.
TEST(Records, NothingBehindAFarPlaceIsNear) {
    const Spec skip(returning("record R { p: u64le  _: at p  w: u8  v: u8 }\n", "u64", "return block.record(R, 0).v"));
    Block block(64, 9);
    const auto at = [&](std::uint64_t place) {
        for (std::size_t i = 0; i < 8; i++) block[i] = static_cast<std::uint8_t>(place >> (8 * i));
        return block;
    };
    EXPECT_EQ(skip.scalar("c.s", at(62)), 9u);
    for (const std::uint64_t far : {std::uint64_t{63}, ~std::uint64_t{0}, ~std::uint64_t{1}, std::uint64_t{1} << 63})
        EXPECT_EQ(skip.run("c.s", at(far)).names, "malformed") << far;
    const Spec chosen(returning("record R { a: u8 when block.length == 64  v: u8 }\n", "u64",
                                "let far = key.as(R)\nlet near = block.record(R, 0)\n"
                                "return (key == 7 ? near : far).v"));
    EXPECT_EQ(chosen.scalar("c.s", block, with_key(7)), block[1]);
    EXPECT_EQ(chosen.scalar("c.s", block, with_key(8)), 9u);
    for (const std::uint64_t far : {std::uint64_t{63}, ~std::uint64_t{0}})
        EXPECT_EQ(chosen.run("c.s", block, with_key(far)).names, "malformed") << far;
}

TEST(Records, AViewKeepsItsPlaceWhenTheVariableMoves) {
    Spec spec(returning("record E { size: u8 }", "u64",
                        "var pos = 0  let first = pos.as(E)  pos = 2  let second = pos.as(E)  return first.size as u64 "
                        "* 256 + second.size as u64"));
    EXPECT_EQ(spec.scalar("c.s", {5, 6, 7}), 5u * 256 + 7);
}

}  // namespace
}  // namespace chainio::passes::test
