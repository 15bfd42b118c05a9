// The three things that can run a step program.
#pragma once
#include <expected>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/spec/loaded.h"
#include "tools/chainio/testing/walk.h"

namespace chainio::testing {

// By the interpreter, or by native code when the artifact was opened with it.
std::unique_ptr<Steps> make_loaded_steps(std::shared_ptr<const spec::Loaded> spec, std::string name);

// By the interpreter, which tells `ended` where a program ended with another outcome than CIO_OK.
struct Ended {
    std::uint32_t program = 0;
    const ir::Stmt* at = nullptr;  // of the artifact; null: none has
};
std::unique_ptr<Steps> make_watched_steps(std::shared_ptr<const spec::Loaded> spec, Ended& ended);

struct NoKernel {
    bool permitted = true;  // false: this process may not load BPF programs
    std::string why;
};
// By BPF_PROG_TEST_RUN: loads the `programs` of the artifact into the running kernel.
std::expected<std::unique_ptr<Steps>, NoKernel> make_bpf_steps(const std::string& artifact_path,
                                                               const ir::Artifact& artifact,
                                                               const std::set<std::uint32_t>& programs);

}  // namespace chainio::testing
