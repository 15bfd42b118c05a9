#include "runtime/probe/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace chainio::probe {
namespace {

// Numbers as in struct pt_regs, counted in 8 bytes; each register by its names for 8, 4, 2 and 1 bytes.
struct Register {
    std::uint8_t number;
    std::array<std::string_view, 4> names;
};
constexpr auto kRegisters = std::to_array<Register>({
    {0, {"r15", "r15d", "r15w", "r15b"}},
    {1, {"r14", "r14d", "r14w", "r14b"}},
    {2, {"r13", "r13d", "r13w", "r13b"}},
    {3, {"r12", "r12d", "r12w", "r12b"}},
    {4, {"rbp", "ebp", "bp", "bpl"}},
    {5, {"rbx", "ebx", "bx", "bl"}},
    {6, {"r11", "r11d", "r11w", "r11b"}},
    {7, {"r10", "r10d", "r10w", "r10b"}},
    {8, {"r9", "r9d", "r9w", "r9b"}},
    {9, {"r8", "r8d", "r8w", "r8b"}},
    {10, {"rax", "eax", "ax", "al"}},
    {11, {"rcx", "ecx", "cx", "cl"}},
    {12, {"rdx", "edx", "dx", "dl"}},
    {13, {"rsi", "esi", "si", "sil"}},
    {14, {"rdi", "edi", "di", "dil"}},
    {19, {"rsp", "esp", "sp", "spl"}},
});
constexpr std::uint8_t kStack = 19;

// "%rdi"; in an address only the whole register will do.
std::optional<std::uint8_t> register_number(std::string_view text, bool whole) {
    if (!text.starts_with('%')) return std::nullopt;
    text.remove_prefix(1);
    for (const Register& row : kRegisters)
        for (std::size_t i = 0; i < (whole ? 1 : row.names.size()); i++)
            if (row.names[i] == text) return row.number;
    return std::nullopt;
}

std::optional<std::int64_t> number(std::string_view text) {
    bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    const int base = text.starts_with("0x") ? 16 : 10;
    if (base == 16) text.remove_prefix(2);
    std::uint64_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || end.ec != std::errc{} || end.ptr != text.data() + text.size()) return std::nullopt;
    return static_cast<std::int64_t>(negative ? 0 - value : value);
}

std::unexpected<std::string> unreadable(std::string_view text, std::string_view why) {
    return std::unexpected(fmt::format("its description \"{}\" {}", text, why));
}

// "8(%rsp)", "-4(%rax,%rbx,8)", "(%rdi)".
std::expected<cio_probe_arg, std::string> memory(std::string_view whole, std::string_view place, cio_probe_arg arg) {
    arg.from = CIO_FROM_MEMORY;
    arg.index = CIO_NO_INDEX;
    const auto open = place.find('(');
    const auto shift = open == 0 ? std::optional<std::int64_t>(0) : number(place.substr(0, open));
    std::string_view inside = place.substr(open + 1, place.size() - open - 2);
    if (inside == "%rip") return unreadable(whole, "names a variable of the program, which is not supported");
    if (!shift) return unreadable(whole, "is not understood");
    arg.value = *shift;
    const auto comma = inside.find(',');
    const auto base = register_number(inside.substr(0, comma), true);
    if (!base) return unreadable(whole, "is not understood");
    arg.reg = *base;
    if (comma == inside.npos) return arg;
    inside.remove_prefix(comma + 1);
    const auto second = inside.find(',');
    const auto index = register_number(inside.substr(0, second), true);
    const auto scale = second == inside.npos ? std::optional<std::int64_t>(1) : number(inside.substr(second + 1));
    if (!index || !scale || (*scale != 1 && *scale != 2 && *scale != 4 && *scale != 8))
        return unreadable(whole, "is not understood");
    arg.index = *index;
    arg.shift = static_cast<std::uint8_t>(*scale == 8 ? 3 : *scale / 2);
    return arg;
}

bool is_push(std::span<const std::uint8_t> code) {
    if (!code.empty() && code[0] >= 0x50 && code[0] <= 0x57) return true;
    return code.size() > 1 && (code[0] & 0xf0) == 0x40 && code[1] >= 0x50 && code[1] <= 0x57;
}

bool is_jump_or_call(std::span<const std::uint8_t> code) {
    if (code.empty()) return false;
    if (code[0] == 0xeb || code[0] == 0xe9 || code[0] == 0xe8 || (code[0] & 0xf0) == 0x70) return true;
    return code.size() > 1 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80;
}

// Breakpoints, port and interrupt instructions, and what has a prefix that the kernel does not step over: `lock`, or a
// segment other than fs and gs. It would say so only when the program maps the file, to the program.
bool is_refused(std::span<const std::uint8_t> code) {
    static constexpr auto opcodes = std::to_array<std::uint8_t>(
        {0xcc, 0xcf, 0xf1, 0xf4, 0xfa, 0xfb, 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed, 0xee, 0xef});
    static constexpr auto refused = std::to_array<std::uint8_t>({0x26, 0x2e, 0x36, 0x3e, 0xf0});
    static constexpr auto others = std::to_array<std::uint8_t>({0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3});
    const auto has = [&](std::span<const std::uint8_t> list) {
        return !code.empty() && std::ranges::find(list, code[0]) != list.end();
    };
    while (has(others)) code = code.subspan(1);
    if (has(refused)) return true;
    if (!code.empty() && (code[0] & 0xf0) == 0x40) code = code.subspan(1);  // REX, which stands behind all of them
    return code.empty() || has(opcodes);
}

}  // namespace

std::vector<std::string_view> split_arguments(std::string_view text) {
    std::vector<std::string_view> out;
    while (true) {
        const auto begin = text.find_first_not_of(' ');
        if (begin == text.npos) return out;
        text.remove_prefix(begin);
        const auto end = std::min(text.find(' '), text.size());
        out.push_back(text.substr(0, end));
        text.remove_prefix(end);
    }
}

std::expected<cio_probe_arg, std::string> parse_argument(std::string_view text) {
    cio_probe_arg arg{};
    arg.index = CIO_NO_INDEX;
    arg.size = 8;
    std::string_view place = text;
    if (const auto at = text.find('@'); at != text.npos) {
        const std::string_view width = text.substr(0, at);
        if (width.ends_with('f'))
            return unreadable(text, "is a floating-point number; a probe hands over integers and strings");
        const auto size = number(width);
        if (!size || (*size != 1 && *size != 2 && *size != 4 && *size != 8 && *size != -1 && *size != -2 &&
                      *size != -4 && *size != -8))
            return unreadable(text, "is not of 1, 2, 4 or 8 bytes");
        arg.size = static_cast<std::uint8_t>(*size < 0 ? -*size : *size);
        arg.is_signed = *size < 0;
        place = text.substr(at + 1);
    }
    if (place.starts_with('$')) {
        const auto value = number(place.substr(1));
        if (!value) return unreadable(text, "is not understood");
        arg.from = CIO_FROM_CONSTANT;
        arg.value = *value;
        return arg;
    }
    if (const auto reg = register_number(place, false)) {
        arg.from = CIO_FROM_REGISTER;
        arg.reg = *reg;
        return arg;
    }
    if (place.find('(') != place.npos && place.ends_with(')')) return memory(text, place, arg);
    return unreadable(text, "is not understood");
}

cio_probe_arg call_argument(unsigned n) {
    static constexpr auto registers = std::to_array<std::uint8_t>({14, 13, 12, 11, 9, 8});
    cio_probe_arg arg{};
    arg.index = CIO_NO_INDEX;
    arg.size = 8;
    if (n < registers.size()) {
        arg.from = CIO_FROM_REGISTER;
        arg.reg = registers[n];
        return arg;
    }
    // Behind the return address.
    arg.from = CIO_FROM_MEMORY;
    arg.reg = kStack;
    arg.value = 8 * static_cast<std::int64_t>(n - registers.size() + 1);
    return arg;
}

Instruction classify(std::span<const std::uint8_t> code) {
    static constexpr auto endbr = std::to_array<std::uint8_t>({0xf3, 0x0f, 0x1e, 0xfa});
    static constexpr auto nop5 = std::to_array<std::uint8_t>({0x0f, 0x1f, 0x44, 0x00, 0x00});
    const auto begins_with = [&](std::span<const std::uint8_t> what) {
        return code.size() >= what.size() && std::ranges::equal(code.first(what.size()), what);
    };
    Instruction out;
    if (begins_with(endbr)) {
        out.skip = endbr.size();
        code = code.subspan(endbr.size());
    }
    if (is_refused(code)) {
        // The marker itself can be probed, whatever is behind it.
        out.cost = out.skip != 0 ? Cost::stepped : Cost::refused;
        out.skip = 0;
    } else if (begins_with(nop5)) {
        out.cost = Cost::nop5;
    } else if (code[0] == 0x90 || is_push(code) || is_jump_or_call(code)) {
        out.cost = Cost::emulated;
    } else if (out.skip != 0) {
        out.skip = 0;
    }
    return out;
}

std::string_view describe(Cost cost) {
    switch (cost) {
        case Cost::nop5: return "at a nop5: about 1 us a call";
        case Cost::emulated: return "at a nop, push or jump, which the kernel emulates: about 2 us a call";
        case Cost::stepped: return "at an instruction that the kernel single-steps: slow, 9 to 16 us a call";
        case Cost::system_call: return "about 0.1 us on every system call of the machine while it is attached";
        case Cost::refused: return "at an instruction that the kernel does not probe";
    }
    return "";
}

}  // namespace chainio::probe
