// bench_inkernel --spec S --path NAME=PATH …: what a lookup costs each contender, one JSON line each. Runs in a machine
// whose clock counts instructions, which tools/bench inkernel boots.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/bench/inkernel/counts.h"
#include "tests/bench/inkernel/tree.h"
#include "tests/bench/lookup/contender.h"

namespace chainio::bench {
namespace {

struct Options {
    std::string spec;
    std::vector<std::string> paths, disks, contenders;
    std::vector<unsigned> depths{6, 16}, in_flight{1, 16, 64, 256};
    std::uint64_t lookups = 256;
    unsigned rounds = 3;
};

struct Contender {
    const char* name;
    Result (*run)(const Job&);
    bool kernel;
    std::uint32_t spin_us = 0;
};
// So long that no read of the emulated disks takes longer: what is counted is a processor that never sleeps.
constexpr std::uint32_t kSpin = 10'000;
constexpr Contender contenders[] = {{"kernel", run_chain, true},
                                    {"spinning", run_chain, true, kSpin},
                                    {"user", run_chain, false},
                                    {"uring", run_uring, false},
                                    {"pread", run_pread, false}};

std::vector<std::uint64_t> random_ranks(std::uint64_t count, std::uint64_t keys, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> ranks(count);
    for (auto& rank : ranks) rank = random() % keys;
    return ranks;
}

struct Total {
    nlohmann::json instructions = nlohmann::json::array();
    Counts counted;  // in the round that counts system calls
    std::uint64_t lookups = 0, wrong = 0, reads = 0;
    std::string note;
};

std::expected<void, std::string> run_round(const Contender& contender, Job& job,
                                           const std::vector<std::uint64_t>& ranks, const IdleTime& idle,
                                           const SyscallCount* syscalls, Total& total) {
    Meter meter(idle, syscalls);
    job.on_begin = [&] {
        // What the last ring and program leave to be freed, and this one's set-up, are over by then.
        if (syscalls == nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(60));
        meter.begin();
    };
    job.on_end = [&] { meter.end(); };
    job.kernel = contender.kernel;
    job.spin_us = contender.spin_us;
    job.warm_up = true;
    const auto outcome = contender.run(job);
    if (!outcome) return std::unexpected(std::string(contender.name) + ": " + outcome.error());
    for (std::size_t i = 0; i < ranks.size(); i++) total.wrong += outcome->value_hash[i] != tree_value_hash(ranks[i]);
    total.lookups += ranks.size();
    total.reads += outcome->reads;
    total.note = outcome->note;
    const auto each = static_cast<double>(ranks.size());
    if (syscalls != nullptr)
        total.counted = meter.counts();
    else
        total.instructions.push_back(static_cast<double>(meter.counts().instructions) / each);
    return {};
}

bool chosen(const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::ranges::find(names, name) != names.end();
}

// Whole batches, so that the last one is as full as the others.
std::uint64_t lookups_of(const Options& options, unsigned in_flight) {
    return (options.lookups + in_flight - 1) / in_flight * in_flight;
}

std::expected<void, std::string> run_depth(const Options& options, const std::string& name, Job& job, TreeShape shape,
                                           const IdleTime& idle, const SyscallCount& syscalls) {
    for (const unsigned in_flight : options.in_flight) {
        std::map<std::string, Total> totals;
        job.depth = in_flight;
        for (unsigned round = 0; round <= options.rounds; round++) {
            const auto ranks = random_ranks(lookups_of(options, in_flight), shape.keys(), round + 1);
            job.keys.clear();
            for (const auto rank : ranks) job.keys.push_back(tree_key(rank));
            for (const Contender& contender : contenders) {
                if (!chosen(options.contenders, contender.name)) continue;
                if (contender.run == run_pread && in_flight != options.in_flight.front()) continue;
                const SyscallCount* counted = round == options.rounds ? &syscalls : nullptr;
                if (auto ran = run_round(contender, job, ranks, idle, counted, totals[contender.name]); !ran)
                    return std::unexpected(ran.error());
            }
        }
        for (const auto& [contender, total] : totals) {
            const auto each = static_cast<double>(job.keys.size());
            const nlohmann::json line = {{"disk", name},
                                         {"depth", shape.depth},
                                         {"in_flight", in_flight},
                                         {"contender", contender},
                                         {"instructions", total.instructions},
                                         {"syscalls", static_cast<double>(total.counted.syscalls) / each},
                                         {"switches", static_cast<double>(total.counted.switches) / each},
                                         {"lookups", total.lookups},
                                         {"wrong", total.wrong},
                                         {"reads", total.reads},
                                         {"note", total.note}};
            std::printf("%s\n", line.dump().c_str());
            std::fflush(stdout);
        }
    }
    return {};
}

std::expected<void, std::string> run(const Options& options) {
    const auto idle = IdleTime::start();
    if (!idle) return std::unexpected(idle.error());
    if (const std::string wrong = clock_obstacle(**idle); !wrong.empty()) return std::unexpected(wrong);
    const auto syscalls = SyscallCount::start();
    if (!syscalls) return std::unexpected(syscalls.error());
    for (const std::string& path : options.paths) {
        const std::size_t equals = path.find('=');
        if (equals == std::string::npos) return std::unexpected("--path wants NAME=PATH, not '" + path + "'");
        const std::string disk = path.substr(0, equals);
        if (!chosen(options.disks, disk)) continue;
        for (const unsigned depth : options.depths) {
            Job job;
            job.db = path.substr(equals + 1);
            job.root = 1;
            job.page_size = kTreePage;
            job.spec = options.spec;
            job.descend = descend_tree;
            job.value_of = [](std::span<const std::uint8_t> result) { return result; };
            const TreeShape shape = shape_of(depth);
            if (auto written = write_tree(job.db, shape); !written) return std::unexpected(written.error());
            if (auto ran = run_depth(options, disk, job, shape, **idle, *syscalls); !ran)
                return std::unexpected(disk + ": " + ran.error());
        }
    }
    return {};
}

}  // namespace
}  // namespace chainio::bench

int main(int argc, char** argv) {
    chainio::bench::Options options;
    CLI::App app("What a lookup costs the kernel engine and its peers, in instructions");
    app.add_option("--spec", options.spec, "compiled tests/bench/inkernel.chain")->required();
    app.add_option("--path", options.paths, "NAME=PATH of a file or a disk, which is overwritten")->required();
    app.add_option("--disk", options.disks, "only the paths of this name");
    app.add_option("--contender", options.contenders, "only these: kernel, spinning, user, uring, pread")
        ->delimiter(',');
    app.add_option("--depth", options.depths, "reads of a lookup")->delimiter(',')->check(CLI::Range(2, 16));
    app.add_option("--in-flight", options.in_flight, "lookups at once")->delimiter(',')->check(CLI::Range(1, 256));
    app.add_option("--lookups", options.lookups, "of a round")->capture_default_str();
    app.add_option("--rounds", options.rounds, "besides the one that counts system calls")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        const auto ran = chainio::bench::run(options);
        if (!ran) std::fprintf(stderr, "bench_inkernel: %s\n", ran.error().c_str());
        return ran ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_inkernel: %s\n", error.what());
        return 3;
    }
}
