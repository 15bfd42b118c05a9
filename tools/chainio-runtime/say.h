// What the daemon has to say, on standard error. That nobody reads it, or that the disk is full, ends nothing.
#pragma once
#include <string_view>

namespace chainio::runtime_tool {

void say(std::string_view text) noexcept;

}  // namespace chainio::runtime_tool
