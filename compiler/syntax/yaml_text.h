// Texts of the language as YAML scalars.
#pragma once
#include <string>
#include <string_view>

namespace chainio::syntax {

std::string yaml_text(const std::string& text);  // plain where that means the same, else in single quotes
std::string yaml_quoted(std::string_view text);  // in single quotes
std::string yaml_string(
    std::string_view value);  // a string: itself, or as a literal of the language where it cannot be

}  // namespace chainio::syntax
