// Descriptions of arguments, and what instructions cost.
#include <gtest/gtest.h>

#include <array>

#include "runtime/probe/arguments.h"

namespace chainio::probe {
namespace {

struct Place {
    unsigned from, reg, index, shift, size, is_signed;
    std::int64_t value;
    bool operator==(const Place&) const = default;
};

Place place_of(std::string_view text) {
    auto arg = parse_argument(text);
    EXPECT_TRUE(arg) << text << ": " << (arg ? "" : arg.error());
    if (!arg) return {};
    return {arg->from, arg->reg, arg->index, arg->shift, arg->size, arg->is_signed, arg->value};
}

TEST(Arguments, EveryForm) {
    EXPECT_EQ(place_of("-4@$-5"), (Place{CIO_FROM_CONSTANT, 0, 255, 0, 4, 1, -5}));
    EXPECT_EQ(place_of("8@$0x10"), (Place{CIO_FROM_CONSTANT, 0, 255, 0, 8, 0, 16}));
    EXPECT_EQ(place_of("8@%rdi"), (Place{CIO_FROM_REGISTER, 14, 255, 0, 8, 0, 0}));
    EXPECT_EQ(place_of("4@%r15d"), (Place{CIO_FROM_REGISTER, 0, 255, 0, 4, 0, 0}));
    EXPECT_EQ(place_of("-2@%ax"), (Place{CIO_FROM_REGISTER, 10, 255, 0, 2, 1, 0}));
    EXPECT_EQ(place_of("1@%sil"), (Place{CIO_FROM_REGISTER, 13, 255, 0, 1, 0, 0}));
    EXPECT_EQ(place_of("-1@%al"), (Place{CIO_FROM_REGISTER, 10, 255, 0, 1, 1, 0}));
    EXPECT_EQ(place_of("%rsp"), (Place{CIO_FROM_REGISTER, 19, 255, 0, 8, 0, 0}));
    EXPECT_EQ(place_of("4@0(%r13)"), (Place{CIO_FROM_MEMORY, 2, 255, 0, 4, 0, 0}));
    EXPECT_EQ(place_of("-8@-24(%rbp)"), (Place{CIO_FROM_MEMORY, 4, 255, 0, 8, 1, -24}));
    EXPECT_EQ(place_of("8@(%rax,%rbx)"), (Place{CIO_FROM_MEMORY, 10, 5, 0, 8, 0, 0}));
    EXPECT_EQ(place_of("8@(%rax,%rbx,2)"), (Place{CIO_FROM_MEMORY, 10, 5, 1, 8, 0, 0}));
    EXPECT_EQ(place_of("8@7(%rax,%rbx,4)"), (Place{CIO_FROM_MEMORY, 10, 5, 2, 8, 0, 7}));
    EXPECT_EQ(place_of("8@(%rax,%rbx,8)"), (Place{CIO_FROM_MEMORY, 10, 5, 3, 8, 0, 0}));
}

TEST(Arguments, RefusedWithTheReason) {
    for (const char* text :
         {"", "@", "4@", "3@%rax", "16@%rax", "x@%rax", "4@%xyz", "4@$", "4@$q", "4@(", "4@)", "4@()", "8@(%eax)",
          "8@(%rax,%rbx,3)", "8@(%rax,,8)", "8@q(%rax)", "8@$99999999999999999999", "8@%", "8@%ah"})
        EXPECT_FALSE(parse_argument(text)) << text;
    EXPECT_EQ(parse_argument("8f@%xmm0").error(),
              "its description \"8f@%xmm0\" is a floating-point number; a probe hands over integers and strings");
    EXPECT_EQ(parse_argument("8@4(%rip)").error(),
              "its description \"8@4(%rip)\" names a variable of the program, which is not supported");
    EXPECT_EQ(parse_argument("9@%rax").error(), "its description \"9@%rax\" is not of 1, 2, 4 or 8 bytes");
}

TEST(Arguments, OfACallAreInTheOrderOfTheMachine) {
    constexpr auto registers = std::to_array<unsigned>({14, 13, 12, 11, 9, 8});  // rdi rsi rdx rcx r8 r9
    for (unsigned n = 0; n < registers.size(); n++) EXPECT_EQ(call_argument(n).reg, registers[n]);
    EXPECT_EQ(call_argument(6).from, CIO_FROM_MEMORY);
    EXPECT_EQ(call_argument(6).value, 8);
    EXPECT_EQ(call_argument(7).value, 16);
}

TEST(Arguments, Split) {
    EXPECT_TRUE(split_arguments("").empty());
    EXPECT_TRUE(split_arguments("   ").empty());
    EXPECT_EQ(split_arguments(" 8@%rax  4@%ebx ").size(), 2u);
    EXPECT_EQ(split_arguments("8@%rax")[0], "8@%rax");
}

template <class... B>
Instruction of(B... bytes) {
    const std::array<std::uint8_t, sizeof...(B)> code{static_cast<std::uint8_t>(bytes)...};
    return classify(code);
}

TEST(Instructions, TheirCost) {
    EXPECT_EQ(of(0x0f, 0x1f, 0x44, 0, 0).cost, Cost::nop5);
    EXPECT_EQ(of(0x90).cost, Cost::emulated);
    EXPECT_EQ(of(0x55).cost, Cost::emulated);
    EXPECT_EQ(of(0x41, 0x57).cost, Cost::emulated);
    EXPECT_EQ(of(0xe9, 1, 0, 0, 0).cost, Cost::emulated);
    EXPECT_EQ(of(0x48, 0x89, 0xf8).cost, Cost::stepped);
    EXPECT_EQ(of(0x0f, 0x1f, 0x44, 0).cost, Cost::stepped);  // cut: not the whole nop
    EXPECT_EQ(of(0xcc).cost, Cost::refused);
    EXPECT_EQ(of(0xf0, 0xff, 0x07).cost, Cost::refused);
    EXPECT_EQ(classify({}).cost, Cost::refused);
}

TEST(Instructions, AreRefusedForAPrefixWhereverItStands) {
    for (const int prefix : {0x26, 0x2e, 0x36, 0x3e, 0xf0}) {
        EXPECT_EQ(of(prefix, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0).cost, Cost::refused) << prefix;
        EXPECT_EQ(of(0x66, prefix, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0).cost, Cost::refused) << prefix;
        EXPECT_EQ(of(0x64, 0xf2, prefix, 0x89, 0xf8).cost, Cost::refused) << prefix;
        EXPECT_EQ(of(0x0f, 0x1f, 0x84, prefix, 0, 0, 0, 0).cost, Cost::stepped) << "it is none there: " << prefix;
    }
    EXPECT_EQ(of(0x66, 0xed).cost, Cost::refused);
    EXPECT_EQ(of(0x48, 0xcc).cost, Cost::refused);
    EXPECT_EQ(of(0x66, 0x66).cost, Cost::refused);  // cut: nobody knows what
    EXPECT_EQ(of(0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0).cost, Cost::stepped);
    EXPECT_EQ(of(0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0).cost, Cost::stepped);
    EXPECT_EQ(of(0x66, 0x90).cost, Cost::stepped);
}

TEST(Instructions, BehindABranchMarker) {
    EXPECT_EQ(of(0xf3, 0x0f, 0x1e, 0xfa, 0x55).skip, 4u);
    EXPECT_EQ(of(0xf3, 0x0f, 0x1e, 0xfa, 0x55).cost, Cost::emulated);
    EXPECT_EQ(of(0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89).skip, 0u);
    EXPECT_EQ(of(0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89).cost, Cost::stepped);
    EXPECT_EQ(of(0xf3, 0x0f, 0x1e, 0xfa).cost, Cost::stepped);
    EXPECT_EQ(of(0xf3, 0x0f, 0x1e, 0xfa).skip, 0u);
}

}  // namespace
}  // namespace chainio::probe
