// The same cases through every engine: IR interpreter, native code, counted BPF, and BPF in the kernel. All have to
// leave the same step memory behind.
#pragma once
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/backends/backends.h"
#include "tests/support/cases.h"

namespace chainio::tests {

struct DifferentialOptions {
    std::uint64_t blocks = 1000;  // for each program
    std::uint64_t first = 0;      // number of the first case
    std::uint64_t seed = 1;
    std::string only;  // one program's name; empty: all
    bool kernel = true;
    bool verified = false;  // report what the verifier said of each program, too
};

struct ProgramReport {
    std::string name;
    std::uint64_t blocks = 0, most_executed = 0, bound = 0;
    std::map<std::string, std::uint64_t> outcomes;
    std::string disagreement;  // empty: none
};

struct DifferentialReport {
    std::vector<ProgramReport> programs;
    std::vector<backends::VerifiedProgram> verified;
    std::string kernel_skipped;  // why the kernel did not take part; empty: it did
    std::uint64_t blocks() const;
    bool agreed() const;
};

using Progress = std::function<void(const std::string& program, std::uint64_t done, std::uint64_t of)>;
// The error is one of the system or of the artifact, not of a program.
std::expected<DifferentialReport, std::string> run_differential(const std::vector<std::uint8_t>& artifact,
                                                                const Inputs&, const DifferentialOptions&,
                                                                const Progress& = {});

}  // namespace chainio::tests
