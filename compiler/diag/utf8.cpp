#include "compiler/diag/utf8.h"

#include <algorithm>
#include <cstdint>

namespace chainio::diag {
namespace {

constexpr std::size_t tab_stop = 4;

struct Decoded {
    std::uint32_t point = 0;
    std::size_t length = 1;
    bool good = false;
};

Decoded decode(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(at);
    if (first < 0x80) return {first, 1, true};
    const std::size_t length = first >= 0xf0 && first < 0xf5   ? 4
                               : first >= 0xe0 && first < 0xf0 ? 3
                               : first >= 0xc2 && first < 0xe0 ? 2
                                                               : 0;
    if (length == 0 || at + length > text.size()) return {};
    std::uint32_t point = first & (0xffU >> (length + 1));
    for (std::size_t i = 1; i < length; i++) {
        if ((byte(at + i) & 0xc0) != 0x80) return {};
        point = point << 6 | (byte(at + i) & 0x3f);
    }
    const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
    const bool surrogate = point >= 0xd800 && point <= 0xdfff;
    if (overlong || surrogate || point > 0x10ffff) return {};
    return {point, length, true};
}

bool in(std::uint32_t point, std::uint32_t low, std::uint32_t high) { return point >= low && point <= high; }

// Combining marks and joiners take no column; controls and direction overrides are replaced, so that a source file
// cannot rearrange what the terminal shows.
bool is_combining(std::uint32_t p) {
    return in(p, 0x300, 0x36f) || in(p, 0x1ab0, 0x1aff) || in(p, 0x20d0, 0x20ff) || in(p, 0xfe00, 0xfe0f) ||
           in(p, 0xfe20, 0xfe2f);
}
bool is_unprintable(std::uint32_t p) {
    return p < 0x20 || in(p, 0x7f, 0x9f) || in(p, 0x200b, 0x200f) || in(p, 0x202a, 0x202e) || in(p, 0x2060, 0x2069) ||
           p == 0xfeff;
}
bool is_wide(std::uint32_t p) {
    return in(p, 0x1100, 0x115f) || in(p, 0x2e80, 0x303e) || in(p, 0x3041, 0xa4cf) || in(p, 0xac00, 0xd7a3) ||
           in(p, 0xf900, 0xfaff) || in(p, 0xfe30, 0xfe6f) || in(p, 0xff00, 0xff60) || in(p, 0xffe0, 0xffe6) ||
           in(p, 0x1f300, 0x1faff) || in(p, 0x20000, 0x3fffd);
}

}  // namespace

std::vector<Cell> cells_of(std::string_view line) {
    std::vector<Cell> cells;
    std::size_t column = 0;
    for (std::size_t at = 0; at < line.size();) {
        const Decoded d = decode(line, at);
        Cell cell{at, at + d.length, column, 1, std::string(line.substr(at, d.length))};
        if (d.good && d.point == '\t') {
            cell.width = tab_stop - column % tab_stop;
            cell.shown = std::string(cell.width, ' ');
        } else if (!d.good || is_unprintable(d.point)) {
            cell.shown = "\xef\xbf\xbd";  // U+FFFD
        } else if (is_combining(d.point)) {
            cell.width = 0;
        } else if (is_wide(d.point)) {
            cell.width = 2;
        }
        column += cell.width;
        at = cell.end;
        cells.push_back(std::move(cell));
    }
    return cells;
}

std::string escaped(std::string_view text) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const Decoded d = decode(text, at);
        const std::string_view bytes = text.substr(at, d.length);
        at += d.length;
        if (d.good && !is_unprintable(d.point)) {
            out += bytes;
            continue;
        }
        for (const char c : bytes) {
            const auto byte = static_cast<unsigned char>(c);
            out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
        }
    }
    return out;
}

std::string escaped_lines(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        out += escaped(text.substr(0, end));
        if (end < text.size()) out += '\n';
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

std::size_t first_bad_byte(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const Decoded d = decode(text, at);
        if (!d.good || d.point == 0) return at;
        at += d.length;
    }
    return std::string_view::npos;
}

std::size_t code_points(std::string_view text, std::size_t bytes) {
    std::size_t count = 0;
    const std::size_t end = std::min(bytes, text.size());
    for (std::size_t at = 0; at < end; count++) at += decode(text, at).length;
    return count;
}

}  // namespace chainio::diag
