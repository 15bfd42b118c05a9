// What the program is started with: the library that is preloaded, and its environment.
#pragma once
#include <expected>
#include <string>
#include <vector>

namespace chainio::run {

// `given`, or the one that stands beside this program.
std::expected<std::string, std::string> find_library(const std::string& given);
std::vector<std::string> environment_for(const std::string& library, const std::string& region);

}  // namespace chainio::run
