// Whether a program has said anything to a server.
#pragma once
#include <algorithm>

#include "runtime/shim/protocol.h"

namespace chainio::run {

inline bool anything_posted(const shim::Region& region) {
    return std::ranges::any_of(region.used_rings, [](const auto& word) { return word.load() != 0; });
}

}  // namespace chainio::run
