// Finds the system calls that a program makes without libc, and what can be replaced by a jump around each.
//
// It is all or nothing: a call that may be one to look at and cannot be replaced refuses the program, since what is
// seen of its descriptors would be wrong from then on.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/shim/sites.h"

namespace chainio::sites {

struct Scan {
    std::vector<shim::Site> sites;
    std::uint32_t others = 0;   // calls by a number that nobody looks at, which stay as they are
    std::uint32_t unknown = 0;  // bytes outside of any function that could be a call, which stay as they are
    std::string refused;        // why no site is given; empty when there is no reason
};

// Any bytes may be given.
Scan scan(std::span<const std::uint8_t> file);

}  // namespace chainio::sites
