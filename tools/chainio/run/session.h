// One run of a program with a shadow server beside it.
#pragma once
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "runtime/shadow/server.h"
#include "tools/chainio/run/spec.h"

namespace chainio::run {

struct RunOptions {
    SpecRequest spec;
    std::vector<std::string> words;  // the program and its arguments
    std::string library;             // libchainio.so; empty: found beside this program
    std::string summary_file;
    // Where the file names a descriptor: one of the same, or the number of the error for which there is none. Later,
    // that number may be one of this process's own.
    std::optional<std::expected<int, int>> summary_descriptor;
    bool follow = false, strict = false, json = false, quiet = false;
    bool rewrite = false;  // catch system calls that go past libc
    shadow::ServerOptions server;

    // Nobody is told what came of the run.
    bool silent() const { return quiet && summary_file.empty(); }
};

// Returns the exit status; ends this process itself when the program died of a signal.
int run(const RunOptions& options);

}  // namespace chainio::run
