#include "tools/chainc/pipeline.h"

#include <algorithm>
#include <array>

#include "compiler/ir/artifact.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "tools/chainc/limits.h"
#include "tools/chainc/stdlib.h"
#include "tools/chainc/verify.h"

namespace chainio::chainc {
namespace {

void parse(Compilation& c) { c.root = c.loader.load_root(c.options.inputs.front()); }

// Runs after syntax errors too: what could be read is checked, so that one wrong line does not hide the others.
void check(Compilation& c) {
    if (!c.root) return;
    const auto import = [&c](const std::string& path, FileId importing) {
        return c.loader.load_import(path, importing);
    };
    c.checked =
        sema::check(*c.root->tree, c.root->canonical_name, import, {c.defines, c.options.target}, c.diagnostics);
}

void lower(Compilation& c) {
    c.artifact.module = passes::lower(*c.checked);
    enforce_lowered_sizes(c);
}

void optimize(Compilation& c) { passes::run_passes(c.artifact.module); }

void lay_out(Compilation& c) {
    c.artifact.layout = ir::layout_of(c.artifact.module);
    c.artifact.bounds.assign(c.artifact.module.programs.size(), {});
}

// What the passes promise to those after them. It stands behind the limits, which have the better words for what is too
// large.
void validate(Compilation& c) {
    const std::string broken = ir::validate(c.artifact.module);
    if (!broken.empty())
        c.diagnostics.report(606, {}, "the lowered program breaks a rule of the IR: " + broken,
                             "please report this with the spec");
}

// What failed says how to mend it, where it knows more than which clang was asked.
void report_failed_build(Compilation& c, std::string what) {
    constexpr std::string_view mark = "\nhint: ";
    std::string hint = "`--clang PROGRAM` names the clang to use; `--check` needs none";
    if (const std::size_t at = what.rfind(mark); at != std::string::npos) {
        hint = what.substr(at + mark.size());
        what.resize(at);
    }
    while (what.ends_with('\n')) what.pop_back();
    c.diagnostics.report(600, {}, std::move(what), std::move(hint));
}

void build(Compilation& c) {
    backends::BuildOptions options{c.options.clang, c.options.native, c.options.optimize};
    auto elf = backends::build_artifact(c.artifact, options);
    if (elf) {
        c.elf = std::move(*elf);
    } else if (!report_stack_overflow(c, elf.error())) {
        report_failed_build(c, elf.error());
    }
}

constexpr std::array stages{
    Stage{"parse", parse, false},           Stage{"check", check, false},   Stage{"lower", lower, true},
    Stage{"passes", optimize, true},        Stage{"layout", lay_out, true}, Stage{"limits", enforce_limits, true},
    Stage{"validate", validate, true},      Stage{"build", build, true},    Stage{"stack", enforce_stack, true},
    Stage{"verify", verify_programs, true},
};

}  // namespace

Compilation::Compilation(const Options& given, diag::WarningOptions warnings,
                         std::map<std::string, sema::Define> given_defines)
    : options(given),
      defines(std::move(given_defines)),
      diagnostics(std::move(warnings)),
      loader(sources, diagnostics, given.include_dirs, find_stdlib(given.stdlib)) {}

std::span<const Stage> pipeline() { return stages; }

std::vector<StageTime> run_until(std::string_view last, Compilation& compilation) {
    using Clock = std::chrono::steady_clock;
    std::vector<StageTime> times;
    for (const Stage& stage : stages) {
        if (stage.wants_clean && (compilation.diagnostics.has_errors() || !compilation.checked)) break;
        const auto start = Clock::now();
        stage.run(compilation);
        times.push_back({stage.name, Clock::now() - start});
        if (stage.name == last) break;
    }
    return times;
}

}  // namespace chainio::chainc
