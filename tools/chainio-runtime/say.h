// What the daemon has to say, on standard error. That nobody reads it, or that the disk is full, ends nothing.
#pragma once
#include <string_view>

namespace chainio::runtime_tool {

void say(std::string_view text) noexcept;

// From here on nobody is waited for who reads it: what finds no room is lost, and clients are served meanwhile.
void wait_for_no_reader() noexcept;

}  // namespace chainio::runtime_tool
