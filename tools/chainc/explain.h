// --explain: the catalogue for people.
#pragma once
#include <expected>
#include <string>

namespace chainio::chainc {

// The text of one entry, or of all of them for "list". The error says what is close.
std::expected<std::string, std::string> explain(const std::string& code_or_name);

}  // namespace chainio::chainc
