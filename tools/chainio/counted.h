// A number of things, in words.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace chainio::tool {

// "1 byte", "2 bytes".
inline std::string counted(std::uint64_t count, const char* noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace chainio::tool
