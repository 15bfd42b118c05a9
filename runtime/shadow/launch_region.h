// Takes what launch_of() has made of a spec into a region; apart from it, since a launcher knows no specs.
#pragma once
#include <string>
#include <string_view>

#include "runtime/shim/protocol.h"

namespace chainio::shadow {

struct Names {
    char chains[shim::kMaxChains][shim::kMaxName]{}, classes[shim::kMaxClasses][shim::kMaxName]{};
    std::uint32_t chain_count = 0, class_count = 0;
};

struct Launch {
    std::uint32_t class_posts[shim::kMaxClasses]{}, socket_posts[shim::kMaxSockets]{};
    shim::Plan plan{};
    Names names;
    std::string steps;  // code for programs (shim::kStepsFile); empty: there is none
};

void put_names(const Names& names, shim::Stats& stats);
// What is in use of it, and no more: a launcher that touched all of it would take a tenth longer.
std::string packed(const Launch& launch);
// False when it was packed by another version or is damaged; the region is of no use then.
// `steps`: the code that is to be put beside it (put_beside), a part of `launch`.
bool launch_region(std::string_view launch, bool explain, shim::Region& region, std::string_view& steps);

}  // namespace chainio::shadow
