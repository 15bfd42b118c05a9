#include "tools/chainio/summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/diag/utf8.h"
#include "runtime/spec/outcomes.h"

namespace chainio::tool {
namespace {

std::string duration(std::uint64_t ns) {
    const double value = static_cast<double>(ns);
    if (ns < 1'000) return fmt::format("{} ns", ns);
    if (ns < 1'000'000) return fmt::format("{:.1f} us", value / 1e3);
    if (ns < 1'000'000'000) return fmt::format("{:.2f} ms", value / 1e6);
    return fmt::format("{:.2f} s", value / 1e9);
}

constexpr double kPercentiles[] = {50, 90, 99, 99.9};

}  // namespace

std::string fallbacks_text(const metrics::Fallbacks& fallbacks) {
    std::string text;
    for (const auto& fallback : fallbacks.all()) {
        text += fmt::format("fallback {} ({}x): {}\n", fallback.name, fallback.count, diag::escaped(fallback.reason));
    }
    return text;
}

nlohmann::ordered_json fallbacks_json(const metrics::Fallbacks& fallbacks) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& fallback : fallbacks.all())
        json.push_back({{"name", fallback.name}, {"reason", fallback.reason}, {"count", fallback.count}});
    return json;
}

std::string summary_text(const engine::Engine& engine, std::uint32_t chain, double seconds) {
    const auto& module = engine.spec().module();
    const auto& runs = engine.chain_counters(chain);
    const auto& io = engine.counters();
    std::string text =
        fmt::format("{}: {} runs in {:.2f} s ({:.0f}/s)\n", diag::escaped(module.chains[chain].name), runs.finished,
                    seconds, static_cast<double>(runs.finished) / std::max(seconds, 1e-9));
    text += "outcomes:";
    for (std::uint32_t i = 0; i < runs.outcomes.size(); i++) {
        if (runs.outcomes[i] != 0)
            text += fmt::format(" {} {}", diag::escaped(spec::outcome_name(i, module.reasons)), runs.outcomes[i]);
    }
    text += fmt::format(
        "\nreads: {} by the chains; {} by io_uring ({} into registered memory), {} by pread, {} from the page cache\n",
        runs.reads, io.ring_reads, io.fixed_reads, io.plain_reads, io.page_cache_reads);
    if (io.block_cache_hits + io.block_cache_misses != 0) {
        text += fmt::format("block cache: {} hits, {} misses, {} evictions\n", io.block_cache_hits,
                            io.block_cache_misses, io.block_cache_evictions);
    }
    text += fmt::format("system calls: {}; short reads carried on: {}; retries: {}; waits for a frame: {}\nlatency:",
                        io.syscalls, io.continued_reads, io.retries, io.frame_waits);
    for (const double percent : kPercentiles)
        text += fmt::format(" p{} {}", percent, duration(runs.latency_ns.percentile(percent)));
    text += fmt::format(" max {}\nengine: {}\n", duration(runs.latency_ns.max()), engine.describe());
    return text + fallbacks_text(engine.fallbacks());
}

std::string summary_json(const engine::Engine& engine, std::uint32_t chain, std::optional<double> seconds) {
    const auto& module = engine.spec().module();
    const auto& runs = engine.chain_counters(chain);
    const auto& io = engine.counters();
    nlohmann::ordered_json json;
    json["chain"] = module.chains[chain].name;
    json["engine"] = engine.describe();
    json["runs"] = runs.finished;
    if (seconds) json["seconds"] = *seconds;
    json["outcomes"] = nlohmann::ordered_json::object();
    for (std::uint32_t i = 0; i < runs.outcomes.size(); i++) {
        if (runs.outcomes[i] != 0) json["outcomes"][spec::outcome_name(i, module.reasons)] = runs.outcomes[i];
    }
    json["reads"] = {{"chain", runs.reads},
                     {"ring", io.ring_reads},
                     {"fixed", io.fixed_reads},
                     {"plain", io.plain_reads},
                     {"page_cache", io.page_cache_reads},
                     {"block_cache_hits", io.block_cache_hits},
                     {"block_cache_misses", io.block_cache_misses},
                     {"carried_on", io.continued_reads},
                     {"retries", io.retries},
                     {"frame_waits", io.frame_waits}};
    json["bytes_read"] = io.bytes_read;
    json["syscalls"] = io.syscalls;
    for (const double percent : kPercentiles) {
        json["latency_ns"][fmt::format("p{}", percent)] = runs.latency_ns.percentile(percent);
    }
    json["latency_ns"]["max"] = runs.latency_ns.max();
    json["fallbacks"] = fallbacks_json(engine.fallbacks());
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace chainio::tool
