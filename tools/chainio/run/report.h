// What `chainio run` says at the end, and `chainio top` meanwhile.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/shadow/server.h"
#include "runtime/shim/protocol.h"
#include "tools/chainio/run/child.h"

namespace chainio::run {

struct ChainFigures {
    std::string name, gate;
    std::uint64_t gate_changes = 0, runs = 0, failed = 0, fetches = 0, fetched_bytes = 0, walks = 0, cached = 0,
                  duplicate = 0, dropped = 0, hits = 0, late = 0, wasted = 0, saved_ns = 0, served = 0, own = 0;
};
struct ClassFigures {
    std::string name;
    std::uint64_t opened = 0, reads = 0, read_bytes = 0, read_ns = 0, slow_reads = 0, slow_ns = 0, served = 0,
                  served_bytes = 0, no_read_ahead = 0;
};
struct Figures {
    std::vector<ChainFigures> chains;
    std::vector<ClassFigures> classes;
    std::uint64_t processes = 0, lost_events = 0, bad_events = 0, no_ring = 0, wakes = 0, server_ns = 0;
    // Requests that programs left to the server, by shim::Left.
    std::array<std::uint64_t, static_cast<std::size_t>(shim::Left::count)> left{};
    std::uint64_t not_begun = 0;  // programs that had no room for the library
};
struct RewritingFigures {
    std::uint64_t programs = 0, sites = 0, others = 0, unknown = 0, calls = 0, missed = 0;
};
RewritingFigures rewriting_of(const shim::Rewriting& counters);
// The counters of a region as they are now. Whatever the region holds, what comes back is bounded.
Figures figures_of(const shim::Stats& stats);

struct Summary {
    std::string program, spec;
    std::string plain;  // not empty: why the program ran without us
    Ended ended;
    bool running_on = false;  // plain: the program has only been started
    double seconds = 0;
    Figures figures;
    shadow::Report report;
    bool explain = false;
    std::vector<std::string> patterns;          // with explain: what the spec is about
    std::optional<RewritingFigures> rewriting;  // when it was asked for
};
std::string summary_text(const Summary& summary);
std::string summary_json(const Summary& summary);

std::string figures_table(const Figures& figures);  // chains, then classes; for summary_text and top
std::string figures_json(const Figures& figures);
// What has happened between two looks, for top.
std::string rates_text(const Figures& now, const Figures& before, double seconds);

std::string human_time(double ns);
std::string human_bytes(std::uint64_t bytes);

}  // namespace chainio::run
