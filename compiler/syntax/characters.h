// Of what characters words are made, and how a message quotes a text.
#pragma once
#include <string>
#include <string_view>

namespace chainio::syntax {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_word(char c) { return is_word_start(c) || is_digit(c); }

inline std::string in_ticks(std::string_view text) { return "`" + std::string(text) + "`"; }

}  // namespace chainio::syntax
