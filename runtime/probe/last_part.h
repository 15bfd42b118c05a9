// The name of a file without its folders; empty behind a last slash.
#pragma once
#include <string_view>

namespace chainio::probe {

inline std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace chainio::probe
