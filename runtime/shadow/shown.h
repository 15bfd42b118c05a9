// Names for people and their terminals.
#pragma once
#include <string>
#include <string_view>

namespace chainio::shadow {

// What a program has named, which may hold any byte: those that control a terminal, or are no UTF-8, as `\x1b`.
std::string shown(std::string_view text);

}  // namespace chainio::shadow
