// Running `chainio call` once its words are understood.
#pragma once
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "tools/chainio/call_args.h"
#include "tools/chainio/results.h"

namespace chainio::tool {

struct CallOptions {
    CallWords words;
    std::string only_file;                // --file PATH without a name
    std::vector<std::string> file_names;  // NAME of --file NAME=PATH
    std::vector<std::string> own_names;   // of the command's options: a parameter of such a name is given by --arg
    std::string keys;                     // file of arguments, "-" for standard input; empty: one run
    unsigned in_flight = 0;               // 0: 1, or 64 with keys
    std::uint64_t memory = 0;
    Output output = Output::text;
    engine::OpenMode mode = engine::OpenMode::as_declared;
    bool kernel = false;   // the kernel engine
    bool trial = false;    // the user engine, until the kernel engine was found no worse
    unsigned spin_us = 0;  // that it looks for completions before it sleeps
    bool json = false, summary = false, quiet = false, interpret = false, no_ring = false;
};

// Prints results and messages; returns the exit code.
int run_call(const CallOptions& options);

}  // namespace chainio::tool
