// Syntax errors: all of them are found, each once, and what is healthy stays in the tree.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/syntax/read.h"

namespace chainio::syntax::test {
namespace {

TEST(Errors, SeveralInOneFileAndTheHealthyPartsStay) {
    const auto got = read_chain(R"(record A { x: u8  y: }
const N =
record B {
  x: u8
  y u16
  z: u32le
}
chain c(k: u64) -> u64 {
  step s(a: A at 0 for 8) {
    let i = a.x +
    let j = a.x
    if j = 3 { return 1 }
    foo(j j)
    return j
  }
}
record After { x: u8 }
)");
    EXPECT_EQ(got->errors(), "CH0001 1:22\nCH0001 2:10\nCH0001 5:5\nCH0001 10:18\nCH0001 12:10\nCH0001 13:11\n")
        << got->rendered();
    EXPECT_EQ(print_chain(*got->file), R"(record A { x: u8 }
record B { x: u8  z: u32le }

chain c(k: u64) -> u64 {
  step s(a: A at 0 for 8) {
    let j = a.x
    return j
  }
}

record After { x: u8 }
)");
    // Names whose declarations were lost are known, so that their uses are not reported as well.
    for (const char* name : {"N", "i", "y"}) {
        EXPECT_GT(std::count(got->file->broken_names.begin(), got->file->broken_names.end(), name), 0) << name;
    }
}

TEST(Errors, AMissingBraceDoesNotSwallowTheDeclarationsBelow) {
    const auto got = read_chain(
        "chain c(k: u64) -> u64 {\n  step s(b: block at 0 for 8) {\n    if k == 1 {\n      return 1\n    return 2\n  "
        "}\n}\nrecord R { x: u8 }\n");
    EXPECT_EQ(got->errors(), "CH0002 3:15\n") << got->rendered();
    ASSERT_EQ(got->file->items.size(), 2U);
    EXPECT_TRUE(std::holds_alternative<ast::Record>(got->file->items[1].node));
}

TEST(Errors, AStrayBraceIsLeftOut) {
    const auto got = read_chain("record R { x: u8 } }\nrecord S { x: u8 }\n");
    EXPECT_EQ(got->errors(), "CH0003 1:20\n");
    EXPECT_EQ(got->file->items.size(), 2U);
}

TEST(Errors, NestingIsBoundedBeforeTheParserRecurses) {
    for (const auto& [open, close] : {std::pair<const char*, const char*>{"(", ")"}, {"f(", ")"}, {"a[", "]"}}) {
        std::string deep, fits;
        for (int i = 0; i < 200'000; ++i) deep += open;
        for (int i = 0; i < 200; ++i) fits += open;
        fits += "1";
        for (int i = 0; i < 200; ++i) fits += close;
        EXPECT_EQ(read_chain("const C = " + deep)->errors().substr(0, 6), "CH0004");
        EXPECT_EQ(read_chain("const C = " + fits)->errors(), "") << open;
    }
}

TEST(Errors, LongChainsOfOperatorsAreBounded) {
    const auto repeated = [](const std::string& part, int times) {
        std::string out;
        for (int i = 0; i < times; ++i) out += part;
        return out;
    };
    EXPECT_EQ(read_chain("const C = " + repeated("a + ", 100'000) + "a")->errors().substr(0, 6), "CH0004");
    EXPECT_EQ(read_chain("const C = " + repeated("- ", 100'000) + "a")->errors().substr(0, 6), "CH0004");
    EXPECT_EQ(read_chain("const C = a" + repeated(".b", 100'000))->errors().substr(0, 6), "CH0004");
    EXPECT_EQ(read_chain("const C = " + repeated("a ? b : ", 50'000) + "c")->errors().substr(0, 6), "CH0004");
    EXPECT_EQ(read_chain("const C = " + repeated("a + ", 200) + "a")->errors(), "");
    const std::string body =
        "chain c() {\n step s(b: block) {\n if a { break } " + repeated("else if a { break } ", 5'000) + "\n }\n}\n";
    EXPECT_EQ(read_chain(body)->errors().substr(0, 6), "CH0004");
}

TEST(Errors, ATextThatIsAllErrorsIsGivenUp) {
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += "record { )\n";
    const auto got = read_chain(text);
    EXPECT_NE(got->diags.error_count(), 0U);
}

TEST(Errors, ATextOfMoreThan4MiBIsRefused) {
    const std::string large(std::size_t{4} << 20U, '#');
    EXPECT_EQ(read_chain(large)->errors(), "");
    EXPECT_EQ(read_chain(large + "#")->errors(), "CH0005 1:1\n");
    EXPECT_EQ(read_yaml(large + "#")->errors(), "CH0005 1:1\n");
}

TEST(Errors, LineEndsMatterWhereTheGrammarSaysSo) {
    // `return` with no value on its line, parts of a reply on the next line, the value of a function.
    const auto got = read_chain(R"(fn f(a) {
  let b = a
  (b)
}
chain c() {
  step s(b: block at 0 for 8) {
    let x = b.find(1) else return
    emit x
    return
  }
}
service s on udp 1 via xdp {
  on request {
    reply "a" k
      "b", k:hex
    n = 4
    reply k
    foo.set(n)
  }
}
)");
    ASSERT_EQ(got->errors(), "") << got->rendered();
    const std::string printed = print_chain(*got->file);
    EXPECT_NE(printed.find("reply \"a\" k \"b\" k:hex\n    n = 4\n    reply k\n    foo.set(n)\n"), std::string::npos)
        << printed;
    EXPECT_NE(printed.find("else return\n    emit x\n    return\n"), std::string::npos) << printed;
}

TEST(Errors, ForBehindNextIsALengthUnlessItBeginsALoop) {
    // Every line stands alone when it is printed; what belongs together stays on one line.
    const std::string body =
        "    next s at 8 for 16\n"
        "    next s at 8 for n in b.other\n"  // no loop: a file is a plain word, so this is refused below
        "    emit 1\n";
    EXPECT_EQ(read_chain("chain c() {\n  step s(b: block at 0 for 8) {\n" + body + "  }\n}\n")->errors(),
              "CH0001 4:33\n");
    const std::string good =
        "chain c() {\n"
        "  step s(b: block at 0 for 8) {\n"
        "    next s at 8 for n in other\n"
        "    emit 1\n"
        "    next s at 8\n"
        "    for n in rows max 4 { emit n }\n"
        "    next s at 8\n"
        "    for n in rows.part(1, max 2)[1..] {\n"
        "      next s at (8 + n) for (n in (1, 2) ? 8 : 16) tag n\n"
        "    }\n"
        "    goto s at 8 for n in (1, 2)\n"
        "    max = 3\n"
        "  }\n"
        "}\n";
    const auto got = read_chain(good);
    ASSERT_EQ(got->errors(), "") << got->rendered();
    const std::string dump = dump_ast(*got->file);
    EXPECT_NE(dump.find("next s at 8 for n in other"), std::string::npos) << dump;
    EXPECT_NE(dump.find("for n in rows max 4"), std::string::npos) << dump;
    EXPECT_NE(dump.find("for n in (1, 2)"), std::string::npos) << dump;
    EXPECT_EQ(print_chain(*read_chain(print_chain(*got->file))->file), print_chain(*got->file));
}

}  // namespace
}  // namespace chainio::syntax::test
