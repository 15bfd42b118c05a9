// What the launcher (`chainio`) hands to the program that it becomes (`chainio-run`) once a program that it has
// started needs a server. Both are one process, so the program stays its child.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace chainio::run {

struct Started {
    int program = 0;             // its process
    std::uint64_t since_ns = 0;  // when, by the steady clock
    std::uint64_t signals = 0;   // those that are blocked outside of the handover, a bit each
    int lock = -1;               // the descriptor by which the region is in use
    std::vector<int> earlier;    // children that are not the run's
    std::string region;          // the path of its file
};

std::string variable_of(const Started& started);  // NAME=VALUE
std::optional<Started> take_started();            // from the environment, in which it is no longer then

}  // namespace chainio::run
