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

TEST(Records, AViewKeepsItsPlaceWhenTheVariableMoves) {
    Spec spec(returning("record E { size: u8 }", "u64",
                        "var pos = 0  let first = pos.as(E)  pos = 2  let second = pos.as(E)  return first.size as u64 "
                        "* 256 + second.size as u64"));
    EXPECT_EQ(spec.scalar("c.s", {5, 6, 7}), 5u * 256 + 7);
}

}  // namespace
}  // namespace chainio::passes::test
