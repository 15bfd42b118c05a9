#include "compiler/syntax/literals.h"

#include <algorithm>
#include <array>
#include <optional>

#include "compiler/syntax/characters.h"
#include "compiler/syntax/codes.h"

namespace chainio::syntax {
namespace {

struct UnitRow {
    std::string_view suffix;
    ast::Unit unit;
    std::uint64_t factor;
};
constexpr std::array units = {
    UnitRow{"B", ast::Unit::bytes, 1},
    UnitRow{"KiB", ast::Unit::bytes, 1ULL << 10U},
    UnitRow{"MiB", ast::Unit::bytes, 1ULL << 20U},
    UnitRow{"GiB", ast::Unit::bytes, 1ULL << 30U},
    UnitRow{"KB", ast::Unit::bytes, 1'000},
    UnitRow{"MB", ast::Unit::bytes, 1'000'000},
    UnitRow{"GB", ast::Unit::bytes, 1'000'000'000},
    UnitRow{"ns", ast::Unit::time, 1},
    UnitRow{"us", ast::Unit::time, 1'000},
    UnitRow{"ms", ast::Unit::time, 1'000'000},
    UnitRow{"s", ast::Unit::time, 1'000'000'000},
    UnitRow{"m", ast::Unit::time, 60'000'000'000},
    UnitRow{"h", ast::Unit::time, 3'600'000'000'000},
};

std::optional<unsigned> digit(char c) {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
    return std::nullopt;
}

struct Digits {
    std::uint64_t value = 0;
    bool any = false, overflow = false;
    bool stray = false;  // a `_` that does not stand between digits
    std::string_view rest;
};

Digits read_digits(std::string_view text, unsigned base) {
    Digits out;
    std::size_t i = 0;
    for (; i < text.size(); ++i) {
        if (text[i] == '_') {
            out.stray |= i == 0 || text[i - 1] == '_';
            continue;
        }
        const auto d = digit(text[i]);
        if (!d || *d >= base) break;
        out.any = true;
        out.overflow |= __builtin_mul_overflow(out.value, std::uint64_t{base}, &out.value);
        out.overflow |= __builtin_add_overflow(out.value, std::uint64_t{*d}, &out.value);
    }
    out.stray |= i > 0 && text[i - 1] == '_';
    out.rest = text.substr(i);
    return out;
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return out;
}

std::string unit_hint(std::string_view suffix) {
    for (const UnitRow& row : units) {
        if (lower(row.suffix) == lower(suffix)) return "did you mean `" + std::string(row.suffix) + "`?";
    }
    return "sizes are B, KiB, MiB, GiB, KB, MB, GB; times are ns, us, ms, s, m, h";
}

// A part of a token that stands on one line.
Span part(Span span, std::size_t begin, std::size_t end) {
    if (span.line != span.end_line) return span;
    Span out = span;
    out.col = span.col + static_cast<std::uint32_t>(begin);
    out.end_col = span.col + static_cast<std::uint32_t>(end);
    return out;
}

}  // namespace

bool is_unit(std::string_view word) { return std::ranges::find(units, word, &UnitRow::suffix) != units.end(); }

ast::IntLit read_int(std::string_view text, Span span, diag::Diagnostics& diags) {
    ast::IntLit literal{.value = 0, .unit = ast::Unit::none, .spelling = std::string(text)};
    const bool hex = text.starts_with("0x") || text.starts_with("0X");
    const bool binary = text.starts_with("0b");
    const std::size_t skipped = hex || binary ? 2 : 0;
    Digits digits = read_digits(text.substr(skipped), hex ? 16 : binary ? 2 : 10);
    const std::size_t suffix_at = text.size() - digits.rest.size();
    if (!digits.any || digits.stray || (skipped != 0 && !digits.rest.empty())) {
        diags.report(code::bad_number, span, "`" + std::string(text) + "` is not a number",
                     "numbers are `4096`, `0x1f`, `0b101`, `4KiB` or `150us`; `_` may stand between digits");
        return literal;
    }
    literal.value = digits.value;
    if (!digits.rest.empty()) {
        const UnitRow* row = nullptr;
        for (const UnitRow& each : units) row = each.suffix == digits.rest ? &each : row;
        if (row == nullptr) {
            if (!std::ranges::all_of(digits.rest, is_word)) {  // of -D, where no scanner has looked at it
                diags.report(code::bad_number, span, "`" + std::string(text) + "` is not a number",
                             "give a number with an optional unit, and no expression: `4096`, `0x1f`, `4KiB`");
                return literal;
            }
            diags.report(code::unknown_unit, part(span, suffix_at, text.size()),
                         "`" + std::string(digits.rest) + "` is not a unit", unit_hint(digits.rest));
            return literal;
        }
        literal.unit = row->unit;
        digits.overflow |= __builtin_mul_overflow(literal.value, row->factor, &literal.value);
    }
    if (digits.overflow) {
        diags.report(code::number_too_large, span, "`" + std::string(text) + "` does not fit 64 bits",
                     literal.unit == ast::Unit::time ? "the longest time is about 584 years: 18446744073709551615ns"
                                                     : "the largest number is 18446744073709551615");
        literal.value = 0;
    }
    return literal;
}

std::string read_string(std::string_view text, Span span, diag::Diagnostics& diags) {
    std::string value;
    if (text.starts_with('"')) text.remove_prefix(1);
    const std::size_t skipped = 1;
    for (std::size_t i = 0; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] != '\\') {
            value += text[i];
            continue;
        }
        const std::size_t begin = i++;
        const char c = i < text.size() ? text[i] : '\0';
        if (c == 'n')
            value += '\n';
        else if (c == 'r')
            value += '\r';
        else if (c == 't')
            value += '\t';
        else if (c == '0')
            value += '\0';
        else if (c == '\\' || c == '"')
            value += c;
        else if (c == 'x' && i + 2 < text.size() && digit(text[i + 1]) && digit(text[i + 2])) {
            value += static_cast<char>(*digit(text[i + 1]) * 16 + *digit(text[i + 2]));
            i += 2;
        } else {
            const std::size_t end = std::min(i + 1, text.size());
            diags.report(code::bad_escape, part(span, begin + skipped, end + skipped),
                         "`" + std::string(text.substr(begin, end - begin)) + "` is not an escape",
                         "escapes are \\n \\r \\t \\0 \\\\ \\\" and \\xHH with two hexadecimal digits");
        }
    }
    return value;
}

namespace {

// The length of the character of UTF-8 at the beginning, when it is one that may stand in a source text as it is; else
// 0.
std::size_t plain_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
    const unsigned first = byte(0);
    if (first >= 0x20 && first < 0x7f) return 1;
    if (first >= 0xc2 && first < 0xe0 && tail(1))
        return first == 0xc2 && byte(1) < 0xa0 ? 0 : 2;  // not the C1 controls
    if (first >= 0xe0 && first < 0xf0 && tail(1) && tail(2)) {
        const unsigned point = (first & 15U) << 12U | (byte(1) & 63U) << 6U | (byte(2) & 63U);
        // Not overlong, no surrogate, no line separator, no byte order mark.
        return point < 0x800 || (point >= 0xd800 && point < 0xe000) || point == 0x2028 || point == 0x2029 ||
                       point >= 0xfeff
                   ? 0
                   : 3;
    }
    if (first >= 0xf0 && first < 0xf5 && tail(1) && tail(2) && tail(3)) {
        const unsigned point = (first & 7U) << 18U | (byte(1) & 63U) << 12U | (byte(2) & 63U) << 6U | (byte(3) & 63U);
        return point < 0x10000 || point > 0x10ffff ? 0 : 4;
    }
    return 0;
}

std::string escape_of(char c) {
    static constexpr std::string_view hex = "0123456789abcdef";
    switch (c) {
        case '\n': return "\\n";
        case '\r': return "\\r";
        case '\t': return "\\t";
        case '\0': return "\\0";
        default: break;
    }
    const auto byte = static_cast<unsigned char>(c);
    return std::string("\\x") + hex[byte >> 4U] + hex[byte & 15U];
}

}  // namespace

bool is_plain_text(std::string_view value) {
    while (!value.empty()) {
        const std::size_t length = plain_character(value);
        if (length == 0) return false;
        value.remove_prefix(length);
    }
    return true;
}

std::string quote_string(std::string_view value) {
    std::string out = "\"";
    while (!value.empty()) {
        const std::size_t length = plain_character(value);
        if (length == 0) {
            out += escape_of(value.front());
        } else {
            if (value.front() == '"' || value.front() == '\\') out += '\\';
            out += value.substr(0, length);
        }
        value.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out + "\"";
}

}  // namespace chainio::syntax
