// What words stand for that call requests, on the control socket and on a command line, give their parameters.
#include <gtest/gtest.h>

#include <string>

#include "tools/chainio/call_args.h"

namespace chainio::tool {
namespace {

ir::Param integer(unsigned bits, bool is_signed) {
    return {ir::Param::Kind::scalar, "n", 0, 0, static_cast<std::uint8_t>(bits), is_signed, 0};
}

std::string refusal(const ir::Param& param, std::string_view text) {
    const auto value = parse_scalar(param, text);
    return value ? "taken as " + std::to_string(*value) : value.error();
}

TEST(CallArguments, IntegersAreTakenUpToTheEndsOfTheirTypes) {
    for (const unsigned bits : {8u, 16u, 24u, 32u, 40u, 48u, 56u}) {
        const std::int64_t top = std::int64_t{1} << (bits - 1);
        const ir::Param with_sign = integer(bits, true), without = integer(bits, false);
        for (const std::int64_t value : {-top, std::int64_t{-1}, std::int64_t{0}, top - 1})
            EXPECT_EQ(parse_scalar(with_sign, std::to_string(value)).value_or(77), static_cast<std::uint64_t>(value));
        for (const std::int64_t value : {-top - 1, top}) {
            const std::string text = std::to_string(value);
            EXPECT_EQ(refusal(with_sign, text),
                      "'" + text + "' for parameter 'n': it does not fit i" + std::to_string(bits));
        }
        const std::string most = std::to_string(2 * top - 1), more = std::to_string(2 * top);
        EXPECT_EQ(parse_scalar(without, most).value_or(77), static_cast<std::uint64_t>(2 * top - 1));
        EXPECT_EQ(parse_scalar(without, "-0").value_or(77), 0u);
        EXPECT_EQ(refusal(without, more), "'" + more + "' for parameter 'n': it does not fit u" + std::to_string(bits));
    }
    EXPECT_EQ(parse_scalar(integer(64, false), "0xffffffffffffffff").value_or(77), UINT64_MAX);
    EXPECT_EQ(parse_scalar(integer(64, true), "-9223372036854775808").value_or(77), std::uint64_t{1} << 63);
    EXPECT_EQ(refusal(integer(64, true), "9223372036854775808"),
              "'9223372036854775808' for parameter 'n': it does not fit i64");
    EXPECT_EQ(refusal(integer(64, false), "18446744073709551616"),
              "'18446744073709551616' for parameter 'n': it does not fit 64 bits");
    EXPECT_EQ(refusal(integer(8, false), "-1"), "'-1' for parameter 'n': u8 has no negative values");
    for (const char* text : {"", "-", "0x", "1 ", "1.5", "--1"})
        EXPECT_EQ(refusal(integer(8, true), text),
                  "'" + std::string(text) + "' for parameter 'n': an integer is wanted, such as 42 or 0x2a");
}

TEST(CallArguments, BytesAreTakenUpToTheirLimit) {
    const ir::Param three{ir::Param::Kind::bytes, "b", 0, 0, 64, false, 3};
    using Bytes = std::vector<std::uint8_t>;
    EXPECT_EQ(parse_bytes(three, "hex:00fF7a").value_or(Bytes{}), (Bytes{0, 255, 0x7a}));
    EXPECT_EQ(parse_bytes(three, "text:hex").value_or(Bytes{}), (Bytes{'h', 'e', 'x'}));
    EXPECT_EQ(parse_bytes(three, "").value_or(Bytes{1}), Bytes{});
    const auto refused = [&](std::string_view text) {
        const auto bytes = parse_bytes(three, text);
        return bytes ? "taken" : bytes.error();
    };
    EXPECT_EQ(refused("four"), "'four' for parameter 'b': it is longer than 3 bytes");
    EXPECT_EQ(refused("hex:000"), "'hex:000' for parameter 'b': hexadecimal bytes come in pairs of digits");
    EXPECT_EQ(refused("hex:0g"), "'hex:0g' for parameter 'b': it has a character that is no hexadecimal digit");
}

}  // namespace
}  // namespace chainio::tool
