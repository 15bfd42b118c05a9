// Random chains on random files through a real engine, by the artifact's own code: what the reference executor says of
// each is what the engine has to say.
#pragma once
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/artifact.h"
#include "runtime/engine/trial.h"
#include "runtime/metrics/fallbacks.h"
#include "runtime/spec/loaded.h"

namespace chainio::tests {

// A module for such runs: the number decides whether its chains are made by what they read (with its hops, its kind of
// result, its priorities), or by random statements.
ir::Artifact chain_artifact(std::uint64_t seed, std::uint64_t number);

struct ChainRun {
    std::string folder;  // where the files that are read are written, and removed again
    std::uint64_t seed = 1;
    std::uint64_t chains = 200;
    bool kernel = false;
    std::optional<engine::TrialOptions> trial;
    bool signals = false;  // come all the time, and end system calls
};

struct ChainTotals {
    std::map<std::string, std::uint64_t> outcomes;
    std::uint64_t chains = 0, reads = 0, syscalls = 0;
    std::string engine;  // as it describes itself at the end
    metrics::Fallbacks fallbacks;
    std::string different;  // the first chain that is; empty: none
};

// The error is one of the system or of the artifact, not of a chain.
std::expected<ChainTotals, std::string> run_random_chains(std::shared_ptr<const spec::Loaded> spec,
                                                          const ChainRun& run);

}  // namespace chainio::tests
