// Arrays, searches, pipelines, aggregates, sequences of records.
#include <algorithm>
#include <cstring>

#include "tests/unit/passes/spec.h"

namespace chainio::passes::test {
namespace {

const char* const kArray = "record A { n: u8  v: u16be[n] }";

Block array_of(const std::vector<std::uint16_t>& values) {
    Block block = {static_cast<std::uint8_t>(values.size())};
    for (std::uint16_t v : values) {
        block.push_back(static_cast<std::uint8_t>(v >> 8));
        block.push_back(static_cast<std::uint8_t>(v));
    }
    return block;
}

TEST(Arrays, SearchesAgreeWithTheStandardLibrary) {
    Spec lower(returning(kArray, "u64", "return block.record(A, 0).v.lower_bound(key)"));
    Spec upper(returning(kArray, "u64", "return block.record(A, 0).v.upper_bound(key)"));
    Spec find(returning(kArray, "u64", "let i = block.record(A, 0).v.find(key) else fail not_found  return i"));
    for (std::size_t n : {0u, 1u, 2u, 3u, 7u, 8u, 100u, 255u}) {
        std::vector<std::uint16_t> values;
        for (std::size_t i = 0; i < n; i++) values.push_back(static_cast<std::uint16_t>(3 * (i / 2) + 5));
        Block block = array_of(values);
        for (std::uint64_t key = 0; key < 3 * n / 2 + 12; key++) {
            auto at = static_cast<std::uint64_t>(std::ranges::lower_bound(values, key) - values.begin());
            auto behind = static_cast<std::uint64_t>(std::ranges::upper_bound(values, key) - values.begin());
            ASSERT_EQ(lower.scalar("c.s", block, with_key(key)), at) << n << " " << key;
            ASSERT_EQ(upper.scalar("c.s", block, with_key(key)), behind) << n << " " << key;
            Ran found = find.run("c.s", block, with_key(key));
            ASSERT_EQ(found.names, at == behind ? "not_found" : "ok") << n << " " << key;
            if (at != behind) {
                ASSERT_EQ(values[found.io.result], key);
            }
        }
    }
}

TEST(Arrays, SignedElementsAreInTheirOwnOrder) {
    const std::string signed_array = "record A { n: u8  v: i16be[n] }";
    const Spec least(
        returning(signed_array, "i64", "let v = block.record(A, 0).v.min() else fail not_found  return v"));
    EXPECT_EQ(least.scalar("c.s", array_of({5, 0xfff0, 7})), static_cast<std::uint64_t>(-16));
    EXPECT_EQ(least.scalar("c.s", array_of({5, 9})), 5u) << "not the 0 of no element";
    const auto searching = [&](const std::string& search, const std::string& end) {
        return Spec(returning(signed_array, "u64", "let i = block.record(A, 0).v." + search + end + "  return i"));
    };
    const Spec lower = searching("lower_bound(key as i64)", ""), upper = searching("upper_bound(key as i64)", "");
    const Spec find = searching("find(key as i64)", " else fail not_found");
    const Spec by = searching("lower_bound(key as i64 by c => c + 1)", "");
    const std::vector<std::int64_t> values = {-300, -300, -2, -1, 0, 7, 300};
    std::vector<std::uint16_t> stored(values.begin(), values.end());
    for (std::int64_t key = -302; key <= 302; key++) {
        const auto with = with_key(static_cast<std::uint64_t>(key));
        const auto at = static_cast<std::uint64_t>(std::ranges::lower_bound(values, key) - values.begin());
        const auto behind = static_cast<std::uint64_t>(std::ranges::upper_bound(values, key) - values.begin());
        ASSERT_EQ(lower.scalar("c.s", array_of(stored), with), at) << key;
        ASSERT_EQ(upper.scalar("c.s", array_of(stored), with), behind) << key;
        ASSERT_EQ(find.run("c.s", array_of(stored), with).names, at == behind ? "not_found" : "ok") << key;
        const auto less = static_cast<std::uint64_t>(std::ranges::lower_bound(values, key - 1) - values.begin());
        ASSERT_EQ(by.scalar("c.s", array_of(stored), with), less) << key;
    }
}

TEST(Arrays, KeysBehindOffsetsAndBytes) {
    std::string records = "record A { n: u8  cell: u8[n] }\nrecord C { size: u8  text: bytes(size) }";
    Spec spec(returning(records, "u64", "return block.record(A, 0).cell.lower_bound(name by C.text)"));
    Block block = {3, 4, 7, 9, 2, 'a', 'b', 1, 'b', 2, 'b', 'a'};
    auto named = [&](std::string text) {
        return [&spec, text](cio_io& io, std::uint8_t* base) {
            io.args[2] = text.size();
            std::copy(text.begin(), text.end(), base + spec.artifact().layout.arg_bytes_offset);
        };
    };
    EXPECT_EQ(spec.scalar("c.s", block, named("a")), 0u);
    EXPECT_EQ(spec.scalar("c.s", block, named("ab")), 0u);
    EXPECT_EQ(spec.scalar("c.s", block, named("b")), 1u);
    EXPECT_EQ(spec.scalar("c.s", block, named("ba")), 2u);
    EXPECT_EQ(spec.scalar("c.s", block, named("c")), 3u);
    block[2] = 200;
    EXPECT_EQ(spec.run("c.s", block, named("ab")).names, "malformed") << "an offset out of the block, met on the way";
}

TEST(Arrays, ElementsAndSlicesAreChecked) {
    Spec spec(returning(kArray, "u64",
                        "let a = block.record(A, 0).v  let s = a[1..key]  return s[0] as u64 * 1000 + s.count()"));
    Block block = array_of({5, 6, 7});
    EXPECT_EQ(spec.scalar("c.s", block, with_key(3)), 6002u);
    EXPECT_EQ(spec.run("c.s", block, with_key(4)).names, "malformed");
    EXPECT_EQ(spec.run("c.s", block, with_key(0)).names, "malformed");
    EXPECT_EQ(spec.run("c.s", block, with_key(1)).names, "malformed") << "an empty slice has no element 0";
    block.pop_back();
    EXPECT_EQ(spec.run("c.s", block, with_key(2)).names, "malformed") << "an array that the block does not hold";
}

TEST(Arrays, AsManyAsALoopTakesWithoutABound) {
    const Spec spec(returning("record A { v: u8[4096] }", "u64",
                              "var sum = 0\nfor x in block.record(A, 0).v { sum = sum + x }\nreturn sum"));
    EXPECT_EQ(spec.scalar("c.s", Block(4096, 3)), 3u * 4096);
}

TEST(Arrays, Aggregates) {
    Spec spec(returning(kArray, "bytes(max 64)",
                        "let a = block.record(A, 0).v\n"
                        "emit a.sum(x => x), a.filter(x => x > 5).count(), a.filter(x => x > 5).sum(x => x * 2)\n"
                        "let low = a.filter(x => x > key).min(x => x) else fail not_found\n"
                        "emit low, block.length\n return"));
    Ran ran = spec.run("c.s", array_of({9, 3, 7, 4}), with_key(3));
    ASSERT_EQ(ran.names, "ok");
    std::vector<std::uint64_t> numbers(ran.out.size() / 8);
    std::memcpy(numbers.data(), ran.out.data(), numbers.size() * 8);
    ASSERT_GE(numbers.size(), 3u);
    EXPECT_EQ(numbers[0], 23u);
    EXPECT_EQ(numbers[1], 2u);
    EXPECT_EQ(numbers[2], 32u);
    EXPECT_EQ(spec.run("c.s", array_of({9, 3, 7, 4}), with_key(9)).names, "not_found");
}

TEST(Arrays, LoopsCutBreakAndContinue) {
    Spec spec(returning(kArray, "u64",
                        "var sum = 0\n for x in block.record(A, 0).v max 4 {\n if x == 1 { continue }\n if x == 9 { "
                        "break }\n sum = sum + x }\n return sum"));
    EXPECT_EQ(spec.scalar("c.s", array_of({1, 2, 3})), 5u);
    EXPECT_EQ(spec.scalar("c.s", array_of({2, 9, 3})), 2u);
    EXPECT_EQ(spec.scalar("c.s", array_of({1, 2, 3, 4, 5})), 9u) << "an array longer than max is cut";
}

TEST(Arrays, OfAFilterAsManyAreTakenAsPassIt) {
    Spec spec(returning(kArray, "u64",
                        "var t = 0\n for x in block.record(A, 0).v.filter(x => x > 3).filter(x => x != 5) max 2 {\n"
                        "if x == 8 { continue }\n t = t * 10 + x }\n return t"));
    EXPECT_EQ(spec.scalar("c.s", array_of({1, 2, 3, 4, 5, 6, 7})), 46u);
    EXPECT_EQ(spec.scalar("c.s", array_of({1, 8, 3, 4, 5, 6, 7})), 4u) << "what the body leaves out has passed, too";
    EXPECT_EQ(spec.scalar("c.s", array_of({1, 9, 3})), 9u);
    EXPECT_EQ(spec.scalar("c.s", array_of({1, 2, 3})), 0u);
    Spec records(returning("record E { a: u8 in { 1 one, 2 two }  b: u8 }", "u64",
                           "var t = 0\n for e in block.records(E, max 6).filter(e => e.a == one) max 2 {\n"
                           "t = t * 10 + e.b }\n return t"));
    EXPECT_EQ(records.scalar("c.s", {2, 1, 2, 2, 1, 3, 1, 4, 0, 5}), 34u) << "what follows need not be well formed";
    EXPECT_EQ(records.scalar("c.s", {2, 1, 2, 2, 2, 3, 2, 4, 2, 5, 2, 6, 1, 7, 1, 8}), 0u)
        << "no more are looked at than the sequence has";
    Spec pieces(returning("", "u64",
                          "var t = 0\n for w in block.split(\" \", 9, max 100).filter(w => w.length == 1) max 2 {\n"
                          "t = t * 10 + w.decimal() }\n return t"));
    EXPECT_EQ(pieces.scalar("c.s", {'1', '1', ' ', '1', ' ', '2', '2', ' ', '2', ' ', '3'}), 12u);
}

TEST(Arrays, RangesAreBounded) {
    Spec spec(returning("", "u64", "var sum = 0\n for i in range(key, 10) max 4 { sum = sum + i }\n return sum"));
    EXPECT_EQ(spec.scalar("c.s", {}, with_key(7)), 24u);
    EXPECT_EQ(spec.scalar("c.s", {}, with_key(6)), 30u);
    EXPECT_EQ(spec.scalar("c.s", {}, with_key(10)), 0u);
    EXPECT_EQ(spec.scalar("c.s", {}, with_key(11)), 0u);
    EXPECT_EQ(spec.run("c.s", {}, with_key(5)).names, "malformed") << "a longer range is no range";
}

TEST(Arrays, RecordsThatFollowOneAnother) {
    Spec spec(returning("record E { size: u8  text: bytes(size) }", "u64",
                        "var total = 0\n for e in block.records(E, max 3) { if e.size == 1 { continue }  total = total "
                        "* 10 + e.text.length }\n return total"));
    EXPECT_EQ(spec.scalar("c.s", {2, 'a', 'b', 1, 'c', 3, 'x', 'y', 'z'}), 23u);
    EXPECT_EQ(spec.scalar("c.s", {}), 0u);
    EXPECT_EQ(spec.run("c.s", {2, 'a', 'b', 5, 'c'}).names, "malformed");
    EXPECT_EQ(spec.scalar("c.s", {2, 'a', 'b', 0, 0, 9}), 200u) << "no more than max";
}

TEST(Arrays, PiecesBetweenSeparators) {
    // Each piece as its length and its bytes.
    Spec spec(
        returning("", "bytes(max 64)",
                  "for w in block[1..].split(\" \", 3, max 4) { emit w.length as u8, w }\n emit 255 as u8\n return"));
    const auto split = [&](const std::string& text) {
        Block block{'!'};
        block.insert(block.end(), text.begin(), text.end());
        const Block out = spec.run("c.s", block).out;
        return std::string(out.begin(), out.end());
    };
    EXPECT_EQ(split("ab c def"),
              "\x02"
              "ab\x01"
              "c\x03"
              "def\xff");
    EXPECT_EQ(split(" a  b"), std::string("\0\x01"
                                          "a\0\x01"
                                          "b\xff",
                                          7))
        << "two separators have an empty piece between them";
    EXPECT_EQ(split("a "), std::string("\x01"
                                       "a\0\xff",
                                       4))
        << "and one at the end has one behind it";
    EXPECT_EQ(split(""), std::string("\0\xff", 2));
    EXPECT_EQ(split("a b c d e f"),
              "\x01"
              "a\x01"
              "b\x01"
              "c\x01"
              "d\xff")
        << "no more than max";
    EXPECT_EQ(spec.run("c.s", {'!', 'a', ' ', 'b', 'c', 'd', 'e'}).names, "malformed") << "a piece that is too long";
    EXPECT_EQ(spec.run("c.s", {'!', 'a', 'b', 'c', 'd'}).names, "malformed");
    Spec count(returning("", "u64", "return block.split(\",\", 16, max 100).filter(w => w.length != 0).count()"));
    EXPECT_EQ(count.scalar("c.s", {',', 'a', ',', ',', 'b'}), 2u);
}

TEST(Arrays, ProjectEmitsOfEveryElement) {
    Spec spec(returning("record E { a: u8  b: u16le }", "bytes(max 64)",
                        "block.records(E, max 10).filter(e => e.a != 2).project(e => e.b, e => e.a)\n return"));
    EXPECT_EQ(spec.run("c.s", {1, 5, 0, 2, 6, 0, 3, 7, 1}).out, (Block{5, 0, 1, 7, 1, 3}));
}

}  // namespace
}  // namespace chainio::passes::test
