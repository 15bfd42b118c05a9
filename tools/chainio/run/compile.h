// Runs chainc, which stands beside this program: a compiler in this one would be loaded and linked at every start, and
// is needed once a spec.
#pragma once
#include <expected>
#include <string>
#include <vector>

namespace chainio::run {

struct CompileRequest {
    std::string compiler;  // the program
    std::string source;
    std::vector<std::string> include_dirs, params;
    std::string stdlib;
};

struct Compiled {
    std::string artifact;
    std::vector<std::string> sources;  // every file that was read
};

struct CompileError {
    int exit_code = 3;  // of chainc; 3 when it could not be started
    std::string message;
};

std::expected<Compiled, CompileError> compile(const CompileRequest& request);
std::string find_compiler();  // beside this program, else on PATH; empty when there is none

}  // namespace chainio::run
