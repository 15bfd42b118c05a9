// What this process has mapped.
#pragma once
#include <fstream>
#include <string>
#include <string_view>

namespace chainio::tests {

// How many of its mappings are of a file whose name has that in it.
inline unsigned mappings_of(std::string_view name) {
    unsigned count = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) count += line.contains(name) ? 1 : 0;
    return count;
}

}  // namespace chainio::tests
