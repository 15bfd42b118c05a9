// What the name of a file on a command line has to be.
#pragma once
#include <string>

namespace chainio::tool {

// For CLI11's check(). An empty name is most often a variable of a script that is not set; as if the option were not
// there would be something else.
inline std::string no_name(const std::string& file) { return file.empty() ? "the name is empty" : ""; }

}  // namespace chainio::tool
