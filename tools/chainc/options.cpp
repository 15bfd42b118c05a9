#include "tools/chainc/options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "tools/chainc/version.h"
#include "tools/chainio/words.h"

namespace chainio::chainc {
namespace {

constexpr const char* description =
    "chainc compiles a ChainIO spec (.chain or .yaml) into one artifact:\n"
    "verified BPF programs, native step code and a runtime configuration.\n"
    "\n"
    "  chainc app.chain -o app.bpf.o     compile\n"
    "  chainc --check app.chain          only report errors\n"
    "  chainc --fmt --in-place app.chain format\n"
    "  chainc --explain CH0123           what a diagnostic means";

constexpr const char* footer =
    "Exit status: 0 ok, 1 the spec is wrong, 2 wrong usage, 3 the system failed (a file, memory, clang), 4 --verify is "
    "not permitted.";

// -MD and -MF are one option each to every build system, but a bundle of short options to the parser.
std::string long_form(std::string_view argument) {
    if (argument == "-MD" || argument == "-MMD") return "--write-deps";
    if (argument == "-MF") return "--deps-file";
    if (argument.starts_with("-MF")) return "--deps-file=" + std::string(argument.substr(3));
    if (argument == "--color" || argument == "--colour") return "--color=always";
    return std::string(argument);
}

std::vector<std::string> arguments(int argc, const char* const* argv) {
    std::vector<std::string> result;
    bool options_ended = false;
    for (int i = 1; i < argc; i++) {
        options_ended |= std::string_view(argv[i]) == "--";
        result.push_back(options_ended ? std::string(argv[i]) : long_form(argv[i]));
    }
    return result;
}

struct Words {  // options whose words are turned into enumerators after parsing
    std::string fmt, report, verify, format = "text";
    bool in_place = false;
};

// As of a script's variable that is not set; it would count as if the option were not there.
std::string no_name(const std::string& file) { return file.empty() ? "the name of a file is empty" : ""; }
std::string no_value(const std::string& value) { return value.empty() ? "the value is empty" : ""; }

void declare(CLI::App& app, Options& o, Words& w) {
    app.add_option("input", o.inputs, "The spec; - is standard input")->type_name("FILE");
    app.add_option("-o,--output", o.output, "Where to write; - is standard output")->check(no_name)->type_name("FILE");
    app.add_option("-I", o.include_dirs, "A folder to look for imports in, after the importing file's own")
        ->type_name("DIR")
        ->allow_extra_args(false);
    app.add_option("-D", o.defines, "A value for a `param`")->type_name("NAME=VALUE")->allow_extra_args(false);
    app.add_option("-O", o.optimize, "Optimisation level of the emitted code")
        ->check(CLI::Range(0, 2))
        ->type_name("0|1|2");
    app.add_option("-W", o.warnings, "NAME, no-NAME, error, error=NAME, no-error=NAME")
        ->type_name("WARNING")
        ->allow_extra_args(false);
    app.add_option("--emit", o.emit, "What to write: ast, ir, c, config, dot, bpf, chain, yaml; several with commas")
        ->delimiter(',')
        ->check(CLI::IsMember({"ast", "ir", "c", "config", "dot", "bpf", "chain", "yaml"}))
        ->type_name("KIND")
        ->allow_extra_args(false);
    app.add_flag("--check", o.check, "Report errors only: all but what clang and a kernel find");
    app.add_flag("--fmt{print}", w.fmt,
                 "Print the spec in its canonical form; --fmt=check fails when it is not in that form")
        ->check(CLI::IsMember({"print", "check"}));
    app.add_flag("--in-place", w.in_place, "With --fmt: write the formatted text back to the file");
    app.add_flag("--report{table}", w.report, "Print the bounds of every program and chain (--report=json)")
        ->check(CLI::IsMember({"table", "json"}));
    app.add_flag("--verify{on}", w.verify,
                 "Load the programs into this kernel's verifier; --verify=log prints its log of each that it refuses")
        ->check(CLI::IsMember({"on", "log"}));
    app.add_option("--explain", o.explain, "Explain a diagnostic, or `list` them all")
        ->check(no_value)
        ->type_name("CODE|list");
    app.add_option("--diagnostics-format", w.format, "How diagnostics are printed")
        ->check(CLI::IsMember({"text", "json", "sarif"}))
        ->type_name("text|json|sarif");
    app.add_option("--source-map", o.source_map,
                   "Write a JSON map from the lines of the canonical form to those of the sources")
        ->check(no_name)
        ->type_name("FILE");
    app.add_option("--target", o.target, "Refuse what this kernel release does not offer")
        ->check(no_value)
        ->type_name("linux-6.1");
    app.add_option("--native", o.native, "Architectures to put native step code in for: x86_64, aarch64, or none")
        ->delimiter(',')
        ->check(CLI::IsMember({"x86_64", "aarch64", "none"}))
        ->type_name("ARCH,…")
        ->allow_extra_args(false);
    app.add_option("--stdlib", o.stdlib, "The folder of the standard library")->check(no_value)->type_name("DIR");
    app.add_option("--clang", o.clang, "The clang to use for BPF and native code")
        ->check(no_value)
        ->type_name("PROGRAM");
    app.add_flag("--write-deps", o.write_deps, "-MD: write the names of the files that were read, as a make rule");
    app.add_option("--deps-file", o.deps_file, "-MF: where to write that rule")->check(no_name)->type_name("FILE");
    app.add_flag("--time-report", o.time_report, "Print how long each stage took");
    app.add_option("--color", o.colour, "--color=auto, always or never; --color alone: always")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("WHEN");
}

std::string usage_error(std::string_view message) {
    return fmt::format("chainc: {}\n  hint: `chainc --help` lists the options\n", message);
}

// What the option parser cannot see: combinations that make no sense.
std::string contradiction(const Options& o, const Words& w) {
    if (w.in_place && o.fmt == FmtMode::off) return "--in-place goes with --fmt";
    if (w.in_place && o.fmt == FmtMode::check) return "--in-place and --fmt=check exclude each other";
    if (!o.explain.empty()) return {};
    if (o.inputs.empty()) return "no input file";
    if (std::ranges::find(o.inputs, "") != o.inputs.end()) return "the name of an input file is empty";
    if (o.inputs.size() > 1 && o.fmt == FmtMode::off) {
        return fmt::format("one input at a time: `{}` and `{}` were given; a spec takes others in with `import`",
                           o.inputs[0], o.inputs[1]);
    }
    if (o.inputs.size() > 1 && !o.output.empty()) return "-o takes one input";
    if (o.native.size() > 1 && std::ranges::find(o.native, "none") != o.native.end())
        return "--native none goes with no architecture";
    if (w.in_place && std::ranges::find(o.inputs, "-") != o.inputs.end())
        return "--in-place cannot write back to standard input";
    if (o.fmt != FmtMode::off &&
        (!o.emit.empty() || o.check || o.report != ReportMode::off || o.verify != VerifyMode::off)) {
        return "--fmt goes with no other output";
    }
    if (o.check && !o.emit.empty()) return "--check and --emit exclude each other";
    if (o.check && !o.output.empty()) return "--check writes nothing, so it takes no -o";
    if (!o.deps_file.empty() && !o.write_deps) return "-MF goes with -MD";
    return {};
}

void fill(Options& o, const Words& w) {
    if (!w.fmt.empty()) o.fmt = w.fmt == "check" ? FmtMode::check : w.in_place ? FmtMode::in_place : FmtMode::print;
    if (!w.report.empty()) o.report = w.report == "json" ? ReportMode::json : ReportMode::table;
    if (!w.verify.empty()) o.verify = w.verify == "log" ? VerifyMode::log : VerifyMode::on;
    o.format = w.format == "json" ? Format::json : w.format == "sarif" ? Format::sarif : Format::text;
}

}  // namespace

std::expected<Options, ParseStop> parse_options(int argc, const char* const* argv) {
    Options options;
    Words words;
    CLI::App app(description, "chainc");
    app.footer(footer);
    app.set_version_flag("--version", std::string("chainc ") + version);
    declare(app, options, words);
    try {
        app.parse(tool::for_parser(app, arguments(argc, argv)));
    } catch (const CLI::CallForHelp&) {
        return std::unexpected(ParseStop{0, app.help(), {}});
    } catch (const CLI::CallForVersion&) {
        return std::unexpected(ParseStop{0, std::string("chainc ") + version + "\n", {}});
    } catch (const CLI::ParseError& error) {
        return std::unexpected(ParseStop{2, {}, usage_error(error.what())});
    }
    fill(options, words);
    const std::string wrong = contradiction(options, words);
    if (!wrong.empty()) return std::unexpected(ParseStop{2, {}, usage_error(wrong)});
    return options;
}

namespace {

const diag::CatalogEntry* warning_named(std::string_view name, std::string_view option, diag::Diagnostics& problems) {
    const diag::CatalogEntry* entry = diag::find_entry(name);
    if (entry && entry->severity != diag::Severity::error) return entry;
    if (entry) {
        problems.report(505, {}, fmt::format("`-W{}`: `{}` is an error, which no option changes", option, entry->name),
                        "`chainc --explain list` shows which diagnostics are warnings");
        return nullptr;
    }
    std::vector<std::string> names;
    for (const diag::CatalogEntry& each : diag::catalog()) {
        if (each.severity != diag::Severity::error) names.emplace_back(each.name);
    }
    const auto near = diag::nearest(name, names);
    problems.report(505, {}, fmt::format("`-W{}`: there is no warning `{}`", option, name),
                    near ? fmt::format("did you mean `{}`?", *near) : "`chainc --explain list` prints every name");
    return nullptr;
}

}  // namespace

diag::WarningOptions warning_options(const Options& options, diag::Diagnostics& problems) {
    diag::WarningOptions result;
    for (const std::string& option : options.warnings) {
        std::string_view word = option;
        if (word == "all") continue;  // every warning is on already
        const bool on = !word.starts_with("no-");
        if (!on) word.remove_prefix(3);
        if (word == "error") {
            result.all_errors = on;
            continue;
        }
        const bool as_error = word.starts_with("error=");
        if (as_error) word.remove_prefix(6);
        const diag::CatalogEntry* entry = warning_named(word, option, problems);
        if (!entry) continue;
        (as_error ? result.errors : result.enabled)[std::string(entry->name)] = on;
    }
    return result;
}

}  // namespace chainio::chainc
