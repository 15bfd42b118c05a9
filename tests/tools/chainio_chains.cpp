// chainio-chains: random chains through whole engines. `make` compiles artifacts, which needs clang; `run` needs
// nothing but them, so that it works under another kernel too.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "compiler/backends/backends.h"
#include "tests/support/random_chains.h"

namespace {

using namespace chainio;

constexpr int kDiffers = 1, kUsage = 2, kSystem = 3;

struct Options {
    std::string folder, data;
    std::uint64_t seed = 1, artifacts = 6;
    std::vector<std::string> engines;
    tests::ChainRun run;
};

std::string path_of(const Options& options, std::uint64_t number) {
    return fmt::format("{}/{}.bpf.o", options.folder, number);
}

int make(const Options& options) {
    for (std::uint64_t number = 0; number < options.artifacts; number++) {
        ir::Artifact artifact = tests::chain_artifact(options.seed, number);
        auto built = backends::build_artifact(artifact, {});
        if (!built) {
            fmt::print(stderr, "chainio-chains: seed {} artifact {}: {}\n", options.seed, number, built.error());
            return kSystem;
        }
        std::ofstream out(path_of(options, number), std::ios::binary);
        out.write(reinterpret_cast<const char*>(built->data()), static_cast<std::streamsize>(built->size()));
        out.close();
        if (!out) {
            fmt::print(stderr, "chainio-chains: {} cannot be written\n", path_of(options, number));
            return kSystem;
        }
    }
    return 0;
}

// Rounds so short that every run has all of them, which cost what makes the one or the other win.
engine::TrialOptions trial_that_ends_with(const std::string& engine) {
    engine::TrialOptions trial;
    trial.after_ns = 0;
    trial.round_chains = 5;
    trial.round_ns = std::uint64_t{1} << 40;
    trial.judged = engine == "auto-kernel" ? +[](engine::Side side, engine::Cost cost) {
        return engine::Cost{cost.chains, cost.chains * (side == engine::Side::kernel ? 1u : 2u), cost.chains};
    } : +[](engine::Side side, engine::Cost cost) {
        return engine::Cost{cost.chains, cost.chains * (side == engine::Side::user ? 1u : 2u), cost.chains};
    };
    return trial;
}

bool as_decided(const std::string& engine, const std::string& description) {
    const bool kernel = engine == "auto-kernel";
    return description.starts_with(kernel ? "kernel engine: " : "user engine: ") &&
           description.find(kernel ? "was no worse in 6 of 6 pairs" : "was no worse in only 0 of 3 pairs") !=
               std::string::npos;
}

// Adds what one artifact's chains did by one engine; 0, or an exit code.
int run_one(const Options& options, std::uint64_t number, const std::string& engine, tests::ChainTotals& sum) {
    auto spec = spec::Loaded::open(path_of(options, number));
    if (!spec) {
        fmt::print(stderr, "chainio-chains: {}\n", spec.error().message);
        return kSystem;
    }
    if (!(*spec)->native()) {
        fmt::print(stderr, "chainio-chains: no native code: {}\n", (*spec)->interpreter_reason());
        return kSystem;
    }
    tests::ChainRun run = options.run;
    run.folder = options.data;
    run.seed = options.seed + number;
    run.kernel = engine == "kernel";
    if (engine.starts_with("auto-")) run.trial = trial_that_ends_with(engine);
    run.signals = engine != "user" && number % 4 >= 2;
    auto totals = tests::run_random_chains(*spec, run);
    if (!totals) {
        fmt::print(stderr, "chainio-chains: seed {} artifact {}, {}: {}\n", options.seed, number, engine,
                   totals.error());
        return kSystem;
    }
    for (const auto& [outcome, count] : totals->outcomes) sum.outcomes[outcome] += count;
    sum.chains += totals->chains;
    sum.reads += totals->reads;
    sum.syscalls += totals->syscalls;
    sum.engine = totals->engine;
    sum.fallbacks = totals->fallbacks;
    if (run.trial && !as_decided(engine, totals->engine)) {
        fmt::print("DIFFERENT: seed {} artifact {}, {}: it runs by the {}\n", options.seed, number, engine,
                   totals->engine);
        return kDiffers;
    }
    if (totals->different.empty()) return 0;
    fmt::print("DIFFERENT: seed {} artifact {}, {}: {}\n", options.seed, number, engine, totals->different);
    return kDiffers;
}

int run(const Options& options) {
    int worst = 0;
    std::uint64_t artifacts = 0;
    while (std::filesystem::exists(path_of(options, artifacts))) artifacts++;
    if (artifacts == 0) {
        fmt::print(stderr, "chainio-chains: {} holds no artifact; `chainio-chains make` writes them\n", options.folder);
        return kUsage;
    }
    for (const std::string& engine : options.engines) {
        tests::ChainTotals sum;
        for (std::uint64_t number = 0; number < artifacts && worst <= kDiffers; number++)
            worst = std::max(worst, run_one(options, number, engine, sum));
        fmt::print("{}: {} chains of {} artifacts, {} reads in the ring, {} system calls;", engine, sum.chains,
                   artifacts, sum.reads, sum.syscalls);
        for (const auto& [outcome, count] : sum.outcomes) fmt::print(" {} {}", outcome, count);
        fmt::print("\n  the last by the {}\n", sum.engine);
        for (const auto& each : sum.fallbacks.all()) fmt::print("  {}: {}\n", each.name, each.reason);
    }
    fmt::print("{}\n", worst == 0 ? "all as the reference says" : "DIFFERENT");
    return worst;
}

int run_command(int argc, char** argv) {
    Options options;
    CLI::App app("Runs random chains by whole engines and compares each with the reference.", "chainio-chains");
    CLI::App* maker = app.add_subcommand("make", "compiles random artifacts into a folder");
    CLI::App* runner = app.add_subcommand("run", "runs the chains of such a folder");
    app.require_subcommand(1);
    for (CLI::App* command : {maker, runner}) {
        command->add_option("folder", options.folder)->required();
        command->add_option("--seed", options.seed)->capture_default_str();
    }
    maker->add_option("--artifacts", options.artifacts)->capture_default_str();
    runner->add_option("data", options.data, "where the files are that chains read")->required();
    runner->add_option("--chains", options.run.chains, "of each artifact")->capture_default_str();
    runner->add_option("--engine", options.engines, "one after the other; auto-X tries both, and X wins")
        ->required()
        ->check(CLI::IsMember({"user", "kernel", "auto-user", "auto-kernel"}));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kUsage;
    }
    return maker->parsed() ? make(options) : run(options);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_command(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "chainio-chains: {}\n", error.what());
        return kSystem;
    }
}
