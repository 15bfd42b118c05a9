// The command line of `chainio run`, as far as a program can be started by it without knowing the spec.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/chainio/run/request.h"

namespace chainio::start {

struct Arguments {
    run::SpecRequest spec;
    std::vector<std::string> words;  // the program and its arguments
    std::string library;
    bool follow = false, explain = false;
    bool silent = false;  // nothing is said about a run of which nothing came
};

// Nothing for every command line that holds anything else, right or wrong: that is the whole program's.
std::optional<Arguments> understand(std::span<const char* const> argv);

}  // namespace chainio::start
