// Patterns of files that can match nothing.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace chainio::ir {

// A pattern with a '/' is compared with whole paths (runtime/shim/glob.h), and these begin with one. Of a pattern that
// cannot begin so, as "data/*.db" or "*/x.db", what its writer may have meant: "**/data/*.db".
std::optional<std::string> anywhere_instead_of(std::string_view pattern);

}  // namespace chainio::ir
