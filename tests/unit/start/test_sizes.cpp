// Sizes on command lines: what they are, and what is none.
#include <gtest/gtest.h>

#include <limits>

#include "tools/chainio/sizes.h"

namespace chainio::tool {
namespace {

TEST(Sizes, AreWholeNumbersWithAUnit) {
    EXPECT_EQ(parse_size("0"), 0U);
    EXPECT_EQ(parse_size("4096"), 4096U);
    EXPECT_EQ(parse_size("010"), 10U) << "not octal";
    EXPECT_EQ(parse_size("5b"), 5U);
    for (const char* text : {"64KiB", "64kib", "64K", "64kb", "64ki", "64 KiB", "64  KiB"})
        EXPECT_EQ(parse_size(text), std::uint64_t{64} << 10) << text;
    EXPECT_EQ(parse_size("2MiB"), std::uint64_t{2} << 20);
    EXPECT_EQ(parse_size("2GiB"), std::uint64_t{2} << 30);
    EXPECT_EQ(parse_size("2TiB"), std::uint64_t{2} << 40);
    EXPECT_EQ(parse_size("2PiB"), std::uint64_t{2} << 50);
    EXPECT_EQ(parse_size("15EiB"), std::uint64_t{15} << 60);
    EXPECT_EQ(parse_size("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
}

TEST(Sizes, RefuseWhatIsNone) {
    const auto why = [](std::string_view text) {
        const auto size = parse_size(text);
        return size ? "it is taken" : size.error();
    };
    EXPECT_EQ(why("-1"), "'-1' is negative; give 0 or more bytes, such as 4096 or 64KiB");
    EXPECT_EQ(why("-5KiB"), "'-5KiB' is negative; give 0 or more bytes, such as 4096 or 64KiB");
    for (const char* text : {"", " ", "-", "-b", "+5", "KiB", "abc", " 5"})
        EXPECT_EQ(why(text), "'" + std::string(text) + "' is no size; give a number of bytes, such as 4096 or 64KiB");
    for (const char* text : {"1.5MiB", "1e3", "0x1b", "5XB", "5KiBi", "5KiB ", "5K B", "5 6", "5bb"})
        EXPECT_EQ(why(text), "'" + std::string(text) +
                                 "' is no size; give a whole number of bytes, KiB, MiB, GiB, TiB, PiB or EiB, such as "
                                 "64KiB");
    for (const char* text : {"18446744073709551616", "16EiB", "99999999999999999999999KiB"})
        EXPECT_EQ(why(text),
                  "'" + std::string(text) + "' is more than 64 bits hold; give a smaller size, such as 64KiB");
    EXPECT_EQ(why("5\x1b[2J"),
              "'5\\x1b[2J' is no size; give a whole number of bytes, KiB, MiB, GiB, TiB, PiB or EiB, "
              "such as 64KiB");
}

}  // namespace
}  // namespace chainio::tool
