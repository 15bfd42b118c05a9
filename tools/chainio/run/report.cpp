#include "tools/chainio/run/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "compiler/diag/utf8.h"

namespace chainio::run {
namespace {

using Json = nlohmann::ordered_json;

std::string name_in(const char (&name)[shim::kMaxName]) { return {name, ::strnlen(name, sizeof name)}; }

std::string gate_text(shim::GateState state) {
    switch (state) {
        case shim::GateState::on: return "on";
        case shim::GateState::off: return "off";
        case shim::GateState::probing: return "probing";
    }
    return "?";
}

ChainFigures chain_figures(const shim::ChainStats& c) {
    return {name_in(c.name), gate_text(c.gate), c.gate_changes, c.events,    c.failed,  c.fetches,
            c.fetched_bytes, c.walks,           c.cached,       c.duplicate, c.dropped, c.hits,
            c.late,          c.wasted,          c.saved_ns,     c.served,    c.own};
}

Json json_of(const Figures& f) {
    Json out;
    out["processes"] = f.processes;
    out["chains"] = Json::array();
    for (const ChainFigures& c : f.chains) {
        out["chains"].push_back({{"name", c.name},
                                 {"gate", c.gate},
                                 {"gate_changes", c.gate_changes},
                                 {"runs", c.runs},
                                 {"failed", c.failed},
                                 {"fetches", c.fetches},
                                 {"fetched_bytes", c.fetched_bytes},
                                 {"walks", c.walks},
                                 {"cached", c.cached},
                                 {"duplicate", c.duplicate},
                                 {"dropped", c.dropped},
                                 {"hits", c.hits},
                                 {"late", c.late},
                                 {"wasted", c.wasted},
                                 {"saved_ns", c.saved_ns},
                                 {"served", c.served},
                                 {"own", c.own}});
    }
    out["classes"] = Json::array();
    for (const ClassFigures& c : f.classes) {
        out["classes"].push_back({{"name", c.name},
                                  {"opened", c.opened},
                                  {"reads", c.reads},
                                  {"read_bytes", c.read_bytes},
                                  {"read_ns", c.read_ns},
                                  {"slow_reads", c.slow_reads},
                                  {"slow_ns", c.slow_ns},
                                  {"served", c.served},
                                  {"served_bytes", c.served_bytes},
                                  {"no_read_ahead", c.no_read_ahead}});
    }
    constexpr std::array kLeft = {"code", "threads", "request", "disk", "name", "length", "many"};
    static_assert(kLeft.size() == std::tuple_size_v<decltype(f.left)>);
    for (std::size_t i = 0; i < kLeft.size(); i++) out["left"][kLeft[i]] = f.left[i];
    out["server"] = {{"lost_events", f.lost_events},
                     {"bad_events", f.bad_events},
                     {"no_ring", f.no_ring},
                     {"wakes", f.wakes},
                     {"busy_ns", f.server_ns}};
    return out;
}

// Columns are as wide as their widest cell; the first is aligned to the left.
std::string table(std::vector<std::vector<std::string>> rows) {
    for (auto& row : rows) row.front() = diag::escaped(row.front());  // the others are ours
    std::vector<std::size_t> widths(rows.front().size(), 0);
    for (const auto& row : rows) {
        for (std::size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const auto& row : rows) {
        std::string line = "  ";
        for (std::size_t i = 0; i < row.size(); i++) {
            line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
        }
        out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
}

std::string gate_cell(const ChainFigures& c) {
    if (c.gate_changes == 0) return c.gate;
    return fmt::format("{} ({} change{})", c.gate, c.gate_changes, c.gate_changes == 1 ? "" : "s");
}

std::string ending(const Summary& s) {
    if (s.running_on) return "was started";
    if (s.ended.signal != 0) return fmt::format("died of signal {} ({})", s.ended.signal, ::strsignal(s.ended.signal));
    return fmt::format("ended with {}", s.ended.code);
}

std::string explained_text(const std::vector<shadow::Explained>& lines, const std::vector<std::string>& patterns) {
    std::string out = fmt::format("  explained: what the program opened, and the class that took it, of {}\n",
                                  fmt::join(patterns, ", "));
    std::vector<std::vector<std::string>> rows;
    for (const auto& line : lines) {
        rows.push_back({"  " + line.what, fmt::format("{}x", line.times), line.by.empty() ? "no class" : line.by});
        if (!line.why.empty()) rows.back().push_back(line.why);
    }
    for (auto& row : rows) {  // reasons are long, and stand to the left
        std::string text = fmt::format("  {}  {}  {}", row[0], row[1], row[2]);
        if (row.size() > 3) text += ": " + row[3];
        out += diag::escaped(text) + "\n";
    }
    if (rows.empty()) out += "    nothing\n";
    return out;
}

bool asked(const ChainFigures& c) { return c.fetches + c.walks + c.cached + c.duplicate + c.dropped + c.failed != 0; }

std::string rewriting_text(const RewritingFigures& r) {
    std::string out = fmt::format("  rewritten: {} system call{} in {} program{}; {} caught, {} missed", r.sites,
                                  r.sites == 1 ? "" : "s", r.programs, r.programs == 1 ? "" : "s", r.calls, r.missed);
    if (r.others != 0) out += fmt::format("; {} that nobody looks at", r.others);
    if (r.unknown != 0) out += fmt::format("; {} outside of functions may be more", r.unknown);
    return out + "\n";
}

double per_second(std::uint64_t now, std::uint64_t before, double seconds) {
    return now < before || seconds <= 0 ? 0 : static_cast<double>(now - before) / seconds;
}

Json json_of(const RewritingFigures& r) {
    return {{"programs", r.programs}, {"sites", r.sites}, {"others", r.others},
            {"unknown", r.unknown},   {"calls", r.calls}, {"missed", r.missed}};
}

}  // namespace

RewritingFigures rewriting_of(const shim::Rewriting& counters) {
    return {counters.programs, counters.sites, counters.others, counters.unknown, counters.calls, counters.missed};
}

Figures figures_of(const shim::Stats& s) {
    Figures f;
    f.processes = s.processes;
    f.not_begun = s.not_begun;
    std::ranges::copy(s.left, f.left.begin());
    f.lost_events = s.lost_events;
    f.bad_events = s.bad_events;
    f.no_ring = s.no_ring;
    f.wakes = s.wakes;
    f.server_ns = s.server_ns;
    const std::uint32_t chains = std::min(s.chain_count.load(), shim::kMaxChains),
                        classes = std::min(s.class_count.load(), shim::kMaxClasses);
    for (std::uint32_t i = 0; i < chains; i++) {
        if (s.chains[i].name[0] != 0) f.chains.push_back(chain_figures(s.chains[i]));
    }
    for (std::uint32_t i = 0; i < classes; i++) {
        const shim::ClassStats& c = s.classes[i];
        if (c.name[0] != 0)
            f.classes.push_back({name_in(c.name), c.opened, c.reads, c.read_bytes, c.read_ns, c.slow_reads, c.slow_ns,
                                 c.served, c.served_bytes, c.no_read_ahead});
    }
    return f;
}

std::string human_time(double ns) {
    if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
    if (ns < 1e6) return fmt::format("{:.0f} us", ns / 1e3);
    if (ns < 1e9) return fmt::format("{:.1f} ms", ns / 1e6);
    return fmt::format("{:.2f} s", ns / 1e9);
}

std::string human_bytes(std::uint64_t bytes) {
    if (bytes < 10 * 1024) return fmt::format("{} B", bytes);
    if (bytes < std::uint64_t{10} << 20) return fmt::format("{} KiB", bytes >> 10);
    return fmt::format("{} MiB", bytes >> 20);
}

std::string figures_table(const Figures& f) {
    // Few programs read past the page cache: the others' tables have no column for it.
    const bool served = std::ranges::any_of(f.classes, [](const ClassFigures& c) { return c.served != 0; });
    std::vector<std::vector<std::string>> chains{
        {"chain", "runs", "fetched", "in memory", "hit", "late", "wasted", "failed", "saved", "gate"}};
    constexpr int kBehindLate = 6;
    const auto add_served = [&](const std::string& cell) {
        if (served) chains.back().insert(chains.back().begin() + kBehindLate, cell);
    };
    add_served("served");
    // A spec may hold chains for other queries than this one; they are left out unless all of them are.
    const bool none = std::ranges::none_of(f.chains, asked);
    for (const ChainFigures& c : f.chains) {
        if (!none && !asked(c)) continue;
        chains.push_back({c.name, fmt::format("{}", c.runs), fmt::format("{}", c.fetches), fmt::format("{}", c.cached),
                          fmt::format("{}", c.hits), fmt::format("{}", c.late), fmt::format("{}", c.wasted),
                          fmt::format("{}", c.failed),
                          c.saved_ns == 0 ? "-" : "~" + human_time(static_cast<double>(c.saved_ns)), gate_cell(c)});
        add_served(fmt::format("{}", c.served));
    }
    std::vector<std::vector<std::string>> classes{{"files", "opened", "reads", "bytes", "from disk", "waited"}};
    if (served) classes.front().emplace_back("served");
    for (const ClassFigures& c : f.classes) {
        classes.push_back({c.name, fmt::format("{}", c.opened), fmt::format("{}", c.reads), human_bytes(c.read_bytes),
                           fmt::format("{}", c.slow_reads), human_time(static_cast<double>(c.slow_ns))});
        if (served) classes.back().push_back(fmt::format("{}", c.served));
    }
    return (f.chains.empty() ? "" : table(chains)) + (f.classes.empty() ? "" : table(classes));
}

std::string rates_text(const Figures& now, const Figures& before, double seconds) {
    std::string out;
    for (std::size_t i = 0; i < now.chains.size() && i < before.chains.size(); i++) {
        const auto &a = now.chains[i], &b = before.chains[i];
        out += fmt::format("  {}: {:.0f} runs/s, {:.0f} fetched/s, {:.0f} hits/s, {:.0f} late/s, {:.0f} wasted/s\n",
                           diag::escaped(a.name), per_second(a.runs, b.runs, seconds),
                           per_second(a.fetches, b.fetches, seconds), per_second(a.hits, b.hits, seconds),
                           per_second(a.late, b.late, seconds), per_second(a.wasted, b.wasted, seconds));
    }
    for (std::size_t i = 0; i < now.classes.size() && i < before.classes.size(); i++) {
        const auto &a = now.classes[i], &b = before.classes[i];
        out += fmt::format("  {}: {:.0f} reads/s, {:.0f} of them from disk\n", diag::escaped(a.name),
                           per_second(a.reads, b.reads, seconds), per_second(a.slow_reads, b.slow_reads, seconds));
    }
    return out;
}

std::string figures_json(const Figures& figures) {
    return json_of(figures).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string summary_text(const Summary& s) {
    std::string out = fmt::format("chainio: {} {}", diag::escaped(s.program), ending(s));
    if (!s.plain.empty()) return out + fmt::format("; it ran plain: {}\n", s.plain);
    out += fmt::format(" after {:.3f} s; {}, {} process{}\n", s.seconds, diag::escaped(s.spec), s.figures.processes,
                       s.figures.processes == 1 ? "" : "es");
    out += figures_table(s.figures);
    if (s.rewriting) out += rewriting_text(*s.rewriting);
    for (const std::string& refused : s.report.refused) out += "  off: " + diag::escaped(refused) + "\n";
    for (const std::string& note : s.report.notes) out += "  note: " + diag::escaped(note) + "\n";
    if (s.explain) out += explained_text(s.report.explained, s.patterns);
    return out;
}

std::string summary_json(const Summary& s) {
    Json out;
    out["program"] = s.program;
    out["spec"] = s.spec;
    out["plain"] = s.plain.empty() ? Json(nullptr) : Json(s.plain);
    out["exit"] = s.running_on          ? Json(nullptr)
                  : s.ended.signal != 0 ? Json{{"signal", s.ended.signal}}
                                        : Json{{"code", s.ended.code}};
    out["seconds"] = s.seconds;
    out.update(json_of(s.figures));
    if (s.rewriting) out["rewritten"] = json_of(*s.rewriting);
    out["refused"] = s.report.refused;
    out["notes"] = s.report.notes;
    if (s.explain) {
        out["patterns"] = s.patterns;
        out["explained"] = Json::array();
        for (const auto& line : s.report.explained)
            out["explained"].push_back({{"what", line.what},
                                        {"by", line.by.empty() ? Json(nullptr) : Json(line.by)},
                                        {"why", line.why},
                                        {"times", line.times}});
    }
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace chainio::run
