// Which figure stands where, in the summary, in its JSON and in pages of top.
#include "tools/chainio/run/report.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

namespace chainio::run {
namespace {

using Json = nlohmann::json;

// All of its counters differ.
std::unique_ptr<shim::Stats> stats() {
    auto made = std::make_unique<shim::Stats>();
    made->chain_count = made->class_count = 1;
    shim::ChainStats& chain = made->chains[0];
    std::strcpy(chain.name, "follow");
    chain.gate = shim::GateState::probing;
    chain.gate_changes = 1, chain.events = 2, chain.failed = 3, chain.fetches = 4, chain.fetched_bytes = 5;
    chain.walks = 6, chain.cached = 7, chain.duplicate = 8, chain.dropped = 9, chain.hits = 10, chain.late = 11;
    chain.wasted = 12, chain.saved_ns = 13'000, chain.served = 14, chain.own = 29;
    shim::ClassStats& files = made->classes[0];
    std::strcpy(files.name, "pages");
    files.opened = 15, files.reads = 16, files.read_bytes = 17, files.read_ns = 18'000, files.slow_reads = 19;
    files.slow_ns = 20'000, files.served = 21, files.served_bytes = 22, files.no_read_ahead = 37;
    made->processes = 23, made->lost_events = 24, made->bad_events = 25, made->no_ring = 26, made->wakes = 27;
    made->server_ns = 28;
    for (std::size_t i = 0; i < std::size(made->left); i++) made->left[i] = 30 + i;
    return made;
}

TEST(Report, EachFigureHasItsNameInJson) {
    const Json chains = Json::parse(R"([{"name": "follow", "gate": "probing", "gate_changes": 1, "runs": 2,
        "failed": 3, "fetches": 4, "fetched_bytes": 5, "walks": 6, "cached": 7, "duplicate": 8, "dropped": 9,
        "hits": 10, "late": 11, "wasted": 12, "saved_ns": 13000, "served": 14, "own": 29}])");
    const Json classes = Json::parse(R"([{"name": "pages", "opened": 15, "reads": 16, "read_bytes": 17,
        "read_ns": 18000, "slow_reads": 19, "slow_ns": 20000, "served": 21, "served_bytes": 22,
        "no_read_ahead": 37}])");
    const Json server = Json::parse(R"({"lost_events": 24, "bad_events": 25, "no_ring": 26, "wakes": 27,
        "busy_ns": 28})");
    const Json left = Json::parse(R"({"code": 30, "threads": 31, "request": 32, "disk": 33, "name": 34, "length": 35,
        "many": 36})");
    const Figures figures = figures_of(*stats());
    EXPECT_EQ(Json::parse(figures_json(figures)),
              (Json{{"processes", 23}, {"chains", chains}, {"classes", classes}, {"left", left}, {"server", server}}));
    Summary summary;
    summary.figures = figures;
    const Json all = Json::parse(summary_json(summary));
    EXPECT_EQ(all["chains"], chains);
    EXPECT_EQ(all["classes"], classes);
    EXPECT_EQ(all["server"], server);
}

TEST(Report, EachFigureHasItsColumn) {
    const auto made = stats();
    EXPECT_EQ(figures_table(figures_of(*made)),
              "  chain   runs  fetched  in memory  hit  late  served  wasted  failed   saved                gate\n"
              "  follow     2        4          7   10    11      14      12       3  ~13 us  probing (1 change)\n"
              "  files  opened  reads  bytes  from disk  waited  served\n"
              "  pages      15     16   17 B         19   20 us      21\n");
    made->classes[0].served = 0;
    made->chains[0].gate_changes = 0;
    EXPECT_EQ(figures_table(figures_of(*made)),
              "  chain   runs  fetched  in memory  hit  late  wasted  failed   saved     gate\n"
              "  follow     2        4          7   10    11      12       3  ~13 us  probing\n"
              "  files  opened  reads  bytes  from disk  waited\n"
              "  pages      15     16   17 B         19   20 us\n");
}

TEST(Report, RatesAreOfWhatHasHappenedSince) {
    const auto made = stats();
    const Figures before = figures_of(*made);
    made->chains[0].events += 20, made->chains[0].fetches += 40, made->chains[0].hits += 60;
    made->chains[0].late += 80, made->chains[0].wasted += 100;
    made->classes[0].reads += 120, made->classes[0].slow_reads += 140;
    EXPECT_EQ(rates_text(figures_of(*made), before, 2),
              "  follow: 10 runs/s, 20 fetched/s, 30 hits/s, 40 late/s, 50 wasted/s\n"
              "  pages: 60 reads/s, 70 of them from disk\n");
    EXPECT_EQ(rates_text(before, before, 0),
              "  follow: 0 runs/s, 0 fetched/s, 0 hits/s, 0 late/s, 0 wasted/s\n"
              "  pages: 0 reads/s, 0 of them from disk\n");
}

TEST(Report, TimesAndSizesHaveTheUnitThatTheyReach) {
    EXPECT_EQ(human_time(999), "999 ns");
    EXPECT_EQ(human_time(1e3), "1 us");
    EXPECT_EQ(human_time(999e3), "999 us");
    EXPECT_EQ(human_time(1e6), "1.0 ms");
    EXPECT_EQ(human_time(999e6), "999.0 ms");
    EXPECT_EQ(human_time(1e9), "1.00 s");
    EXPECT_EQ(human_bytes(10 * 1024 - 1), "10239 B");
    EXPECT_EQ(human_bytes(10 * 1024), "10 KiB");
    EXPECT_EQ(human_bytes((std::uint64_t{10} << 20) - 1), "10239 KiB");
    EXPECT_EQ(human_bytes(std::uint64_t{10} << 20), "10 MiB");
}

// A spec may hold chains for other queries than this one.
TEST(Report, ChainsThatDidNothingAreLeftOutUnlessAllAre) {
    Figures figures;
    for (const char* name : {"one", "two"}) figures.chains.push_back({.name = name, .gate = "on"});
    const auto shows = [&](const char* name) {
        return figures_table(figures).find("\n  " + std::string(name) + " ") != std::string::npos;
    };
    EXPECT_TRUE(shows("one") && shows("two"));
    for (std::uint64_t ChainFigures::* figure :
         {&ChainFigures::failed, &ChainFigures::fetches, &ChainFigures::walks, &ChainFigures::cached,
          &ChainFigures::duplicate, &ChainFigures::dropped}) {
        figures.chains[1].*figure = 1;
        EXPECT_FALSE(shows("one"));
        EXPECT_TRUE(shows("two"));
        figures.chains[1].*figure = 0;
    }
}

TEST(Report, OfAProgramThatRanPlainThereAreNoFigures) {
    Summary summary;
    summary.program = "db";
    summary.spec = "db.chain";
    summary.plain = "there is no room";
    summary.running_on = true;
    EXPECT_EQ(summary_text(summary), "chainio: db was started; it ran plain: there is no room\n");
    EXPECT_EQ(Json::parse(summary_json(summary))["plain"], "there is no room");
    summary.plain.clear();
    summary.running_on = false;
    summary.ended = {3, 0};
    EXPECT_EQ(summary_text(summary), "chainio: db ended with 3 after 0.000 s; db.chain, 0 processes\n");
    EXPECT_EQ(Json::parse(summary_json(summary))["plain"], nullptr);
}

TEST(Report, OfRewritingWhatIsNotSeenIsToldWhereThereIsAny) {
    Summary summary;
    summary.program = summary.spec = "x";
    const auto line = [&](const RewritingFigures& figures) {
        summary.rewriting = figures;
        const std::string text = summary_text(summary);
        return text.substr(text.find('\n') + 1);
    };
    EXPECT_EQ(line({.programs = 1, .sites = 1, .calls = 2, .missed = 0}),
              "  rewritten: 1 system call in 1 program; 2 caught, 0 missed\n");
    EXPECT_EQ(line({.programs = 2, .sites = 3, .others = 4, .unknown = 1, .calls = 5, .missed = 6}),
              "  rewritten: 3 system calls in 2 programs; 5 caught, 6 missed; 4 that nobody looks at; 1 outside of "
              "functions may be more\n");
}

}  // namespace
}  // namespace chainio::run
