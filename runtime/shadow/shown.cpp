#include "runtime/shadow/shown.h"

#include <cstddef>
#include <cstdint>

namespace chainio::shadow {
namespace {

// How many bytes the character at the begin of `text` has; 0 when it is none of UTF-8, or controls a terminal.
std::size_t shown_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
    const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
    constexpr std::uint32_t kLeast[] = {0, 0, 0xa0, 0x800,
                                        0x10000};  // below lie the other controls, and too long forms
    if (byte(0) < 0xc0 || byte(0) >= 0xf8 || text.size() < size) return 0;
    std::uint32_t point = byte(0) & (0x7fu >> size);
    for (std::size_t i = 1; i < size; i++) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        point = point << 6 | (byte(i) & 0x3fu);
    }
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    return point >= kLeast[size] && point <= 0x10ffff && !surrogate ? size : 0;
}

}  // namespace

std::string shown(std::string_view text) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    while (!text.empty()) {
        const std::size_t size = shown_character(text);
        const auto byte = static_cast<std::uint8_t>(text[0]);
        if (size == 0) {
            out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
        } else {
            out += text.substr(0, size);
        }
        text.remove_prefix(size == 0 ? 1 : size);
    }
    return out;
}

}  // namespace chainio::shadow
