// Sizes on command lines, in bytes: 4096, 64KiB, "2 GiB".
#pragma once
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <expected>
#include <limits>
#include <string>
#include <string_view>

#include "compiler/diag/utf8.h"

namespace chainio::tool {

// What a unit multiplies by; 0: there is no such unit. K, KB and KiB are the same: 1024, in capitals or not.
inline std::uint64_t bytes_of_unit(std::string_view unit) {
    std::string small(unit);
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (small.empty() || small == "b") return 1;
    const std::size_t power = std::string_view("kmgtpe").find(small.front());
    const std::string_view rest = std::string_view(small).substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "i" && rest != "ib")) return 0;
    return std::uint64_t{1} << (10 * (power + 1));
}

// The error says what is wrong with it, and what it can be.
inline std::expected<std::uint64_t, std::string> parse_size(std::string_view text) {
    const auto wrong = [text](std::string_view why) {
        return std::unexpected("'" + diag::escaped(text) + "' " + std::string(why));
    };
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (text.size() > 1 && text[0] == '-' && text[1] >= '0' && text[1] <= '9')
        return wrong("is negative; give 0 or more bytes, such as 4096 or 64KiB");
    if (error == std::errc::invalid_argument) return wrong("is no size; give a number of bytes, such as 4096 or 64KiB");
    std::string_view unit(rest, end);
    unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
    const std::uint64_t factor = bytes_of_unit(unit);
    if (factor == 0)
        return wrong("is no size; give a whole number of bytes, KiB, MiB, GiB, TiB, PiB or EiB, such as 64KiB");
    if (error != std::errc() || number > std::numeric_limits<std::uint64_t>::max() / factor)
        return wrong("is more than 64 bits hold; give a smaller size, such as 64KiB");
    return number * factor;
}

// For CLI11's transform(). Its own AsSizeValue takes -1 for 2^64 - 1, and what is more than that for as much.
class Size : public CLI::Validator {
  public:
    Size() : Validator("SIZE [b, kb(=1024b), ...]") {
        func_ = [](std::string& text) -> std::string {
            const auto size = parse_size(text);
            if (!size) return size.error();
            text = std::to_string(*size);
            return {};
        };
    }
};

}  // namespace chainio::tool
