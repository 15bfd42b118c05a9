#include "compiler/syntax/literals.h"

#include <gtest/gtest.h>

#include "tests/unit/syntax/read.h"

namespace chainio::syntax::test {
namespace {

struct IntCase {
    const char* text;
    std::uint64_t value;
    ast::Unit unit;
};

TEST(Literals, IntegersAndUnits) {
    using enum ast::Unit;
    const IntCase cases[] = {{"0", 0, none},
                             {"18446744073709551615", ~0ULL, none},
                             {"0xFF_ff", 0xffff, none},
                             {"0b101", 5, none},
                             {"1_000", 1000, none},
                             {"0B", 0, bytes},
                             {"4KiB", 4096, bytes},
                             {"4KB", 4000, bytes},
                             {"3MiB", 3 << 20, bytes},
                             {"2MB", 2'000'000, bytes},
                             {"1GiB", 1 << 30, bytes},
                             {"1GB", 1'000'000'000, bytes},
                             {"7ns", 7, time},
                             {"150us", 150'000, time},
                             {"2ms", 2'000'000, time},
                             {"1s", 1'000'000'000, time},
                             {"1m", 60'000'000'000, time},
                             {"1h", 3'600'000'000'000, time},
                             {"16GiB", 16ULL << 30, bytes}};
    for (const IntCase& each : cases) {
        diag::Diagnostics diags;
        const ast::IntLit got = read_int(each.text, {}, diags);
        EXPECT_EQ(diags.error_count(), 0U) << each.text;
        EXPECT_EQ(got.value, each.value) << each.text;
        EXPECT_EQ(got.unit, each.unit) << each.text;
        EXPECT_EQ(got.spelling, each.text);
    }
}

TEST(Literals, NumbersThatAreRefused) {
    const std::pair<const char*, const char*> cases[] = {{"18446744073709551616", "CH0010"},
                                                         {"17179869184GiB", "CH0010"},
                                                         {"0x1_0000_0000_0000_0000", "CH0010"},
                                                         {"1_", "CH0009"},
                                                         {"1__2", "CH0009"},
                                                         {"0x_1", "CH0009"},
                                                         {"0xf_", "CH0009"},
                                                         {"1_KiB", "CH0009"},
                                                         {"99999999999h", "CH0010"},
                                                         {"4kb", "CH0011"},
                                                         {"12abc", "CH0011"},
                                                         {"0x", "CH0009"},
                                                         {"0xfg", "CH0009"},
                                                         {"0b2", "CH0009"}};
    for (const auto& [text, code] : cases) {
        const auto got = read_chain(std::string("const C = ") + text + "\n");
        EXPECT_EQ(got->errors().substr(0, 6), code) << text;
        EXPECT_EQ(got->diags.error_count(), 1U) << text;
    }
}

TEST(Literals, StringsKeepEveryByte) {
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    for (const std::string& value :
         {all, std::string("\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80 \"\\ \xff\xc3"), std::string()}) {
        const auto got = read_chain("const C = " + quote_string(value) + "\n");
        ASSERT_EQ(got->errors(), "") << got->rendered();
        const auto& constant = std::get<ast::Const>(got->file->items.at(0).node);
        EXPECT_EQ(std::get<ast::StringLit>(constant.binding.value->node).value, value);
    }
    EXPECT_EQ(quote_string("h\xc3\xa9 \x01\n"), "\"h\xc3\xa9 \\x01\\n\"");
}

TEST(Literals, BadEscapesAreShownWhereTheyStand) {
    EXPECT_EQ(read_chain("const C = \"ab\\q\\x4\"\n")->errors(), "CH0008 1:14\nCH0008 1:16\n");
}

}  // namespace
}  // namespace chainio::syntax::test
