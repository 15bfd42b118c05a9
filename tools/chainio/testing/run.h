// Runs a test file and counts.
#pragma once
#include <string>
#include <vector>

namespace chainio::testing {

struct Options {
    std::vector<std::string> engines;  // interpreter, native, bpf
    std::string filter;                // only cases whose name contains this
    bool list = false;                 // print the names of the cases, run nothing
};

struct Counts {
    unsigned passed = 0, failed = 0, skipped = 0, listed = 0;
    bool wrong_file = false;     // a test file that is wrong or cannot be prepared, or a spec that does not compile
    bool system_failed = false;  // a test file that cannot be read, no folder to work in
};

// Prints a line for each case, and the differences of those that fail.
void run_file(const std::string& path, const Options& options, Counts& counts);

}  // namespace chainio::testing
