// bench_lookup CONTENDER --db FILE …: one run of one contender, as one JSON line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/bench/lookup/contender.h"
#include "tests/bench/lookup/os.h"
#include "tests/bench/lookup/sqlite_library.h"
#include "tests/bench/lookup/sqlite_page.h"

namespace chainio::bench {
namespace {

using Runner = Result (*)(const Job&);
const std::map<std::string, Runner> contenders = {
    {"pread", run_pread}, {"uring", run_uring}, {"sqlite", run_sqlite}, {"chain", run_chain}};

struct Options {
    std::string contender;
    std::uint64_t lookups = 20000, seed = 1;
    bool latencies = false;
    Job job;
};

std::vector<std::uint64_t> random_keys(std::uint64_t count, std::uint64_t rows, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> keys(count);
    for (auto& key : keys) key = 1 + random() % rows;
    return keys;
}

// Latencies in bins of a twelfth of a factor of ten, from 1 us.
nlohmann::json histogram(const std::vector<std::uint32_t>& latency_ns) {
    std::map<int, std::uint64_t> bins;
    for (const std::uint32_t ns : latency_ns)
        bins[static_cast<int>(std::floor(12 * std::log10(std::max<double>(ns, 1000) / 1000)))]++;
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [bin, count] : bins) out.push_back({std::pow(10, bin / 12.0), count});
    return out;
}

std::uint32_t percentile(std::vector<std::uint32_t>& sorted, double share) {
    if (sorted.empty()) return 0;
    return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(static_cast<double>(sorted.size()) * share))];
}

std::expected<nlohmann::json, std::string> run(Options& options) {
    Job& job = options.job;
    const auto facts = facts_of(job.db);
    if (!facts) return std::unexpected(facts.error());
    job.root = facts->root;
    job.page_size = facts->page_size;
    job.descend = descend;
    job.value_of = last_column;
    job.keys = random_keys(options.lookups, facts->rows, options.seed);
    const auto expected = expected_hashes(job.db, job.keys);
    if (!expected) return std::unexpected(expected.error());
    const std::uint64_t device_before = device_bytes();
    auto outcome = contenders.at(options.contender)(job);
    if (!outcome) return std::unexpected(outcome.error());
    const std::uint64_t device_pages = (device_bytes() - device_before) / job.page_size;
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < job.keys.size(); i++)
        wrong += i >= outcome->value_hash.size() || outcome->value_hash[i] != (*expected)[i];
    nlohmann::json out = {{"contender", options.contender},
                          {"depth", job.depth},
                          {"lookups", options.lookups},
                          {"seconds", outcome->seconds},
                          {"reads", outcome->reads},
                          {"device_pages", device_pages},
                          {"wrong", wrong},
                          {"note", outcome->note}};
    auto& latency = outcome->latency_ns;
    if (options.latencies) out["histogram"] = histogram(latency);
    std::ranges::sort(latency);
    out["p50_us"] = percentile(latency, 0.5) / 1e3;
    out["p99_us"] = percentile(latency, 0.99) / 1e3;
    out["max_us"] = latency.empty() ? 0 : latency.back() / 1e3;
    return out;
}

}  // namespace
}  // namespace chainio::bench

int main(int argc, char** argv) {
    using namespace chainio::bench;
    Options options;
    CLI::App app("One run of one contender of the lookup benchmark");
    app.add_option("contender", options.contender, "pread, uring, sqlite or chain")
        ->required()
        ->check(CLI::IsMember(contenders));
    app.add_option("--db", options.job.db, "SQLite file with table kv(id, value)")->required();
    app.add_option("--lookups", options.lookups, "how many")->capture_default_str();
    app.add_option("--seed", options.seed, "of the keys")->capture_default_str();
    app.add_option("--depth", options.job.depth, "lookups in flight")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024));
    app.add_option("--cache-bytes", options.job.cache_bytes, "block cache; 0: none");
    app.add_option("--cache-levels", options.job.cache_levels, "levels that it may hold");
    app.add_option("--spec", options.job.spec, "compiled chain");
    app.add_flag("--latencies", options.latencies, "print a histogram");
    CLI11_PARSE(app, argc, argv);
    try {
        const auto result = run(options);
        if (!result) {
            std::fprintf(stderr, "bench_lookup: %s\n", result.error().c_str());
            return 1;
        }
        std::printf("%s\n", result->dump().c_str());
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_lookup: %s\n", error.what());
        return 3;
    }
}
