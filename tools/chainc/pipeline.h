// The compiler as one list of stages. What a stage makes, it leaves in the Compilation for those after it.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/backends/backends.h"
#include "compiler/sema/check.h"
#include "compiler/sema/checked.h"
#include "tools/chainc/loader.h"
#include "tools/chainc/options.h"

namespace chainio::chainc {

struct Compilation {
    Compilation(const Options& given, diag::WarningOptions warnings, std::map<std::string, sema::Define> given_defines);

    const Options& options;
    std::map<std::string, sema::Define> defines;
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    FileLoader loader;
    LoadedFile* root = nullptr;
    std::optional<checked::Module> checked;
    ir::Artifact artifact;
    std::vector<std::uint8_t> elf;
    backends::VerifyResult verified;
};

struct Stage {
    std::string_view name;
    void (*run)(Compilation&);
    bool wants_clean;  // does not run once an error was reported
};
std::span<const Stage> pipeline();

struct StageTime {
    std::string_view name;
    std::chrono::nanoseconds time;
};
// Runs the stages up to and including `last`.
std::vector<StageTime> run_until(std::string_view last, Compilation&);

}  // namespace chainio::chainc
