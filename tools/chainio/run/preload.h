// What the program is started with: the library that is preloaded, and its environment.
#pragma once
#include <expected>
#include <string>
#include <vector>

#include "runtime/shim/protocol.h"

namespace chainio::run {

// `given`, or the one that stands beside this program.
std::expected<std::string, std::string> find_library(const std::string& given);
// With `rewrite` programs have their own system calls rewritten as they start; each says for itself when it has not.
std::vector<std::string> environment_for(const std::string& library, const std::string& region, bool rewrite);

}  // namespace chainio::run
