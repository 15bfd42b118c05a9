// Whole numbers on command lines: decimal ones, with or without zeros in front, and 0x….
#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/diag/utf8.h"

namespace chainio::tool {

// None where it is no such number, or more than 64 bits hold.
inline std::optional<std::uint64_t> parse_whole(std::string_view text) {
    const bool hex = text.starts_with("0x") || text.starts_with("0X");
    if (hex) text.remove_prefix(2);
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number, hex ? 16 : 10);
    if (error != std::errc() || rest != end) return std::nullopt;
    return number;
}

// For CLI11's transform(). By itself CLI11 takes 010 for 8, -1 for 2^64 - 1, and what is more than that for as much.
class Whole : public CLI::Validator {
  public:
    Whole(std::uint64_t least, std::uint64_t most)
        : Validator("INT in [" + std::to_string(least) + " - " + std::to_string(most) + "]") {
        func_ = [least, most](std::string& text) -> std::string {
            const auto number = parse_whole(text);
            if (!number || *number < least || *number > most)
                return "Value " + diag::escaped(text) + " not in range " + std::to_string(least) + " to " +
                       std::to_string(most);
            text = std::to_string(*number);
            return {};
        };
    }
};

}  // namespace chainio::tool
