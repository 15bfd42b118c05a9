// Patterns and names of files that no file can have.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace chainio::ir {

// A pattern with a '/' is compared with whole paths (runtime/shim/glob.h), and these begin with one. Of a pattern that
// cannot begin so, as "data/*.db" or "*/x.db", what its writer may have meant: "**/data/*.db".
std::optional<std::string> anywhere_instead_of(std::string_view pattern);

// Why no file in a folder has this name, as the end of a sentence about it; nullptr: one may.
const char* why_no_file_name(std::string_view name);

}  // namespace chainio::ir
