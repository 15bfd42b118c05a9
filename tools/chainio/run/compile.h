// Runs chainc, which stands beside this program: a compiler in this one would be loaded and linked at every start, and
// is needed once a spec.
#pragma once
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "tools/chainio/run/request.h"

namespace chainio::run {

struct Compiled {
    std::string artifact;
    std::vector<std::string> sources;  // every file that was read
};

struct CompileError {
    int exit_code = 3;  // of chainc; 3 when it could not be started
    std::string message;
};

// What to do about a process that cannot be started, to be put behind the error; mostly nothing.
std::string_view remedy_of_start(int error);

std::expected<Compiled, CompileError> compile(const CompileRequest& request);

}  // namespace chainio::run
