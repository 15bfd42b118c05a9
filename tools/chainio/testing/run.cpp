#include "tools/chainio/testing/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>

#include "compiler/backends/interruption.h"
#include "compiler/diag/diag.h"
#include "compiler/diag/utf8.h"
#include "runtime/spec/outcomes.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/testing/bind.h"
#include "tools/chainio/testing/check.h"
#include "tools/chainio/testing/origin.h"
#include "tools/chainio/testing/steps.h"

namespace chainio::testing {
namespace {

bool wants(const Options& options, std::string_view engine) {
    return std::ranges::find(options.engines, engine) != options.engines.end();
}

bool selected(const Options& options, const Case& test) {
    return options.filter.empty() || test.name.contains(options.filter);
}

struct Engines {
    std::shared_ptr<const spec::Loaded> spec;
    std::vector<std::unique_ptr<Steps>> steps;
    std::vector<std::string> notes;  // engines that were asked for and do not run here
};

// The programs that the selected cases can come through.
std::set<std::uint32_t> programs_of(const Suite& suite, const Options& options, const spec::Loaded& spec) {
    std::set<std::uint32_t> programs;
    const auto add = [&](std::int32_t program) {
        if (program >= 0) programs.insert(static_cast<std::uint32_t>(program));
    };
    for (const auto& test : suite.cases) {
        const auto found = spec.find_chain(test.chain);
        if (!found || !selected(options, test)) continue;
        const ir::Chain& chain = spec.module().chains[*found];
        for (const std::int32_t program : {chain.entry, chain.done, chain.shadow}) add(program);
        for (const auto& step : chain.steps) add(step.program);
        for (const auto& param : chain.params) {
            if (param.kind == ir::Param::Kind::file) add(spec.module().files[param.file_class].header_program);
        }
    }
    return programs;
}

std::expected<Engines, std::string> open_engines(const Suite& suite, const Options& options,
                                                 const std::string& artifact) {
    Engines engines;
    auto interpreted = spec::Loaded::open(artifact, {.use_native = false});
    if (!interpreted) return std::unexpected(interpreted.error().message);
    engines.spec = *interpreted;
    if (wants(options, "interpreter")) engines.steps.push_back(make_loaded_steps(engines.spec, "interpreter"));
    if (wants(options, "native")) {
        auto native = spec::Loaded::open(artifact, {.use_native = true});
        if (!native) return std::unexpected(native.error().message);
        if ((*native)->native()) {
            engines.steps.push_back(make_loaded_steps(*native, "native"));
        } else {
            engines.notes.push_back("native: " + (*native)->interpreter_reason());
        }
    }
    if (wants(options, "bpf")) {
        auto bpf = make_bpf_steps(artifact, engines.spec->artifact(), programs_of(suite, options, *engines.spec));
        if (bpf) {
            engines.steps.push_back(std::move(*bpf));
        } else if (bpf.error().permitted) {
            return std::unexpected(bpf.error().why);
        } else {
            engines.notes.push_back("bpf: " + bpf.error().why);
        }
    }
    if (engines.steps.empty())
        return std::unexpected(fmt::format("none of the engines runs here: {}", fmt::join(engines.notes, "; ")));
    return engines;
}

std::expected<Outcome, std::string> run_in(Steps& steps, const Engines& engines, std::uint32_t chain, const Case& test,
                                           Workspace& workspace) {
    if (test.event) {
        auto event = bind_event(engines.spec->module().chains[chain], test, workspace);
        if (!event) return std::unexpected(event.error());
        return react(engines.spec->artifact(), steps, chain, *event, {});
    }
    auto input = bind_call(engines.spec->module(), chain, test, workspace);
    if (!input) return std::unexpected(input.error());
    if (engines.spec->module().chains[chain].mode == ir::ChainMode::on_probe)
        return react(engines.spec->artifact(), steps, chain, {}, input->args);
    return walk(engines.spec->artifact(), steps, *input);
}

// Where an outcome that the case does not expect comes from. The chain is run once more, as only the interpreter knows.
std::string origin(const Engines& engines, std::uint32_t chain, const Case& test, Workspace& workspace) {
    Ended ended;
    const auto steps = make_watched_steps(engines.spec, ended);
    const auto outcome = run_in(*steps, engines, chain, test, workspace);
    if (!outcome || outcome->outcome == CIO_OK) return {};
    const ir::Module& module = engines.spec->module();
    const std::string name = spec::outcome_name(outcome->outcome, module.reasons);
    if (name == test.expected.outcome) return {};
    const std::string text = described(origin_of(module, *outcome, ended, workspace.source_map()));
    return text.empty() ? "" : name + " " + text;
}

// What is different in a case. Engines that say the same, as they mostly do, say it once.
class Different {
  public:
    void add(const std::string& engine, std::vector<std::string> lines) {
        if (lines.empty()) return;
        const auto same = std::ranges::find(said_, lines, &Said::lines);
        same != said_.end() ? same->engines.push_back(engine) : said_.push_back({{engine}, std::move(lines)});
    }
    void add(std::string line) {
        if (std::ranges::find(of_none_, line) == of_none_.end()) of_none_.push_back(std::move(line));
    }
    bool none() const { return said_.empty() && of_none_.empty(); }
    std::vector<std::string> lines() const {
        std::vector<std::string> out;
        for (const auto& [engines, lines] : said_)
            for (const auto& line : lines) out.push_back(fmt::format("{}: {}", fmt::join(engines, ", "), line));
        out.insert(out.end(), of_none_.begin(), of_none_.end());
        return out;
    }

  private:
    struct Said {
        std::vector<std::string> engines, lines;
    };
    std::vector<Said> said_;
    std::vector<std::string> of_none_;  // lines that are no engine's
};

// The lines that say why a case fails.
std::vector<std::string> run_case(const Engines& engines, const Case& test, Workspace& workspace) {
    const auto chain = find_chain(*engines.spec, test);
    if (!chain) return {chain.error()};
    Different different;
    std::optional<Outcome> first;
    for (const auto& steps : engines.steps) {
        const auto outcome = run_in(*steps, engines, *chain, test, workspace);
        if (!outcome) {
            different.add(outcome.error());
            continue;
        }
        if (!first) first = *outcome;
        auto lines = differences(test, *outcome, engines.spec->module());
        std::ranges::move(disagreement(*first, *outcome, engines.spec->module()), std::back_inserter(lines));
        different.add(steps->name(), std::move(lines));
    }
    if (first && !different.none()) {
        if (std::string line = origin(engines, *chain, test, workspace); !line.empty()) different.add(std::move(line));
    }
    return different.lines();
}

// A misspelt outcome is never that of a chain, and its case would blame the chain.
std::string unknown_outcome(const Suite& suite, const ir::Module& module) {
    std::vector<std::string> words;
    for (const auto& each : spec::outcomes()) words.emplace_back(each.name);
    words.insert(words.end(), module.reasons.begin(), module.reasons.end());
    for (const auto& test : suite.cases) {
        const std::string& word = test.expected.outcome;
        if (std::ranges::find(words, word) != words.end()) continue;
        const auto near = diag::nearest(word, words);
        return fmt::format(
            "{}:{}: no chain of the spec ends with '{}'; {}", suite.path, test.expected.place, word,
            near ? fmt::format("did you mean '{}'?", *near) : fmt::format("there are {}", fmt::join(words, ", ")));
    }
    return {};
}

void skip_all(const Suite& suite, const Options& options, const std::string& reason, Counts& counts) {
    for (const auto& test : suite.cases) {
        if (!selected(options, test)) continue;
        counts.skipped++;
        tool::print_out("skip {}: {}\n", diag::escaped(test.name), reason);
    }
}

void run_cases(const Suite& suite, const Options& options, const Engines& engines, Workspace& workspace,
               Counts& counts) {
    for (const auto& test : suite.cases) {
        if (backends::Interruption::asked()) return;
        if (!selected(options, test)) continue;
        const auto lines = run_case(engines, test, workspace);
        tool::print_out("{} {}\n", lines.empty() ? "ok  " : "FAIL", diag::escaped(test.name));
        for (const auto& line : lines) tool::print_out("       {}\n", diag::escaped(line));
        if (!lines.empty()) tool::print_out("       the case stands at {}:{}\n", diag::escaped(suite.path), test.line);
        lines.empty() ? counts.passed++ : counts.failed++;
    }
}

}  // namespace

void run_file(const std::string& path, const Options& options, Counts& counts) {
    const auto fail = [&](const std::string& message) {
        tool::say("chainio test: {}\n", message);
        counts.wrong_file = true;
    };
    const auto suite = read_suite(path);
    if (!suite) {
        counts.system_failed = counts.system_failed || suite.error().system;
        return fail(diag::escaped(suite.error().message));
    }
    if (options.list) {
        for (const auto& test : suite->cases) {
            if (!selected(options, test)) continue;
            counts.listed++;
            tool::print_out("{}\n", diag::escaped(fmt::format("{}:{}: {}", path, test.line, test.name)));
        }
        return;
    }
    auto workspace = Workspace::make(*suite);
    if (!workspace) {
        counts.system_failed = true;
        return fail(workspace.error().message);
    }
    if (const auto ready = workspace->prepare(); !ready) {
        if (!ready.error().skip) return fail(ready.error().message);
        return skip_all(*suite, options, ready.error().message, counts);
    }
    const auto artifact = workspace->compile();
    if (!artifact) return fail(artifact.error().message);
    const auto engines = open_engines(*suite, options, *artifact);
    if (!engines) return fail(diag::escaped(fmt::format("{}: {}", path, engines.error())));
    if (const std::string unknown = unknown_outcome(*suite, engines->spec->module()); !unknown.empty())
        return fail(diag::escaped(unknown));
    std::vector<std::string> names;
    for (const auto& steps : engines->steps) names.push_back(steps->name());
    tool::print_out("{}: every case in {}\n", diag::escaped(path), fmt::join(names, ", "));
    for (const auto& note : engines->notes) tool::print_out("not run: {}\n", diag::escaped(note));
    run_cases(*suite, options, *engines, *workspace, counts);
}

}  // namespace chainio::testing
