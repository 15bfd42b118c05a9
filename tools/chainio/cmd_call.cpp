// `chainio call app.bpf.o lookup --file db=big.db --key 42`: runs a call chain once, or once for each line of a file of
// keys.
#include <CLI/CLI.hpp>
#include <chrono>

#include "compiler/diag/utf8.h"
#include "tools/chainio/call_run.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/named.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/sizes.h"
#include "tools/chainio/whole.h"

namespace chainio::tool {
namespace {

constexpr const char* kCallFooter =
    R"(chainio call ARTIFACT CHAIN [--file NAME=PATH]... [--PARAMETER VALUE]... [OPTIONS]

The chain's parameters are given by their names: --key 42, --name alice, --name hex:00ff.
A file parameter is --file NAME=PATH (or --NAME PATH). A parameter whose name is an option's: --arg NAME=VALUE.
With --keys each line of the file holds the parameters that are not given, in their order, separated by tabs; a line of
output is the input line, the outcome and the result, separated by tabs, in the order of the input.
Exit code: 0 every run ended with ok; 1 one did not, or the input is wrong; 2 usage; 3 a file or the system failed.)";

bool split_pairs(const std::vector<std::string>& pairs, const char* option, std::map<std::string, std::string>& out) {
    for (const std::string& pair : pairs) {
        const std::size_t equals = pair.find('=');
        if (equals == std::string::npos || equals == 0) {
            say("chainio call: --{} wants NAME=VALUE, not '{}'\n", option, diag::escaped(pair));
            return false;
        }
        if (!out.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second) {
            say("chainio call: '{}' is given twice\n", diag::escaped(pair.substr(0, equals)));
            return false;
        }
    }
    return true;
}

// --file NAME=PATH, and --file PATH of the only file parameter.
bool take_files(const std::vector<std::string>& files, CallOptions& options) {
    for (const std::string& file : files) {
        if (file.find('=') != std::string::npos) {
            if (!split_pairs({file}, "file", options.words.named)) return false;
            options.file_names.push_back(file.substr(0, file.find('=')));
            continue;
        }
        if (!options.only_file.empty()) {
            say("chainio call: --file is given twice, '{}' and '{}'; say what each is: --file NAME=PATH\n",
                diag::escaped(options.only_file), diag::escaped(file));
            return false;
        }
        options.only_file = file;
    }
    return true;
}

}  // namespace

void add_call(CLI::App& root, int& exit_code) {
    struct Parsed {
        CallOptions options;
        std::vector<std::string> files, args;
        std::string output = "text", engine = "auto";
        bool direct = false, buffered = false;
    };
    auto parsed = std::make_shared<Parsed>();
    auto* command = root.add_subcommand("call", "Run a call chain");
    command->footer(kCallFooter);
    command->allow_extras();
    CallOptions& options = parsed->options;
    command->add_option("--file", parsed->files, "file for a file parameter: NAME=PATH")
        ->allow_extra_args(false)
        ->take_all()
        ->check(no_name);
    command->add_option("--arg", parsed->args, "value for a parameter: NAME=VALUE")
        ->allow_extra_args(false)
        ->take_all();
    command->add_option("--keys", options.keys, "run once for each line of this file (-: standard input)")
        ->check(no_name);
    command->add_option("--in-flight", options.in_flight, "chains at once (default 1; 64 with --keys)")
        ->transform(Whole(1, 65536));
    command->add_option("--memory", options.memory, "bytes for blocks, 256 KiB and more (default: by --in-flight)")
        ->transform(Size());
    command->add_option("--engine", parsed->engine, "user, kernel, or auto: user until kernel was tried and no worse")
        ->check(CLI::IsMember({"auto", "user", "kernel"}));
    command->add_option("--spin", options.spin_us, "microseconds that it looks for completions before it sleeps")
        ->transform(Whole(0, 1'000'000));
    command->add_option("--output", parsed->output, "raw, hex or text")->check(CLI::IsMember({"raw", "hex", "text"}));
    command->add_flag("--json", options.json, "one JSON object a run, then {\"summary\": …}");
    command->add_flag("--summary", options.summary, "print what the run did to stderr (with --keys it always is)");
    command->add_flag("--quiet", options.quiet, "no summary, no progress, no notes about fallbacks");
    auto* direct = command->add_flag("--direct", parsed->direct, "open files with O_DIRECT, whatever their class says");
    command->add_flag("--buffered", parsed->buffered, "open files without O_DIRECT, whatever their class says")
        ->excludes(direct);
    command->add_flag("--interpret", options.interpret, "run steps by the IR interpreter");
    command->add_flag("--no-ring", options.no_ring, "read by plain preads instead of io_uring");
    command->callback([parsed, command, &exit_code] {
        CallOptions& chosen = parsed->options;
        exit_code = kExitUsage;
        chosen.kernel = parsed->engine == "kernel";
        chosen.trial = parsed->engine == "auto" && !chosen.no_ring && !chosen.interpret;
        if (chosen.kernel && (chosen.no_ring || chosen.interpret)) {
            say("chainio call: --engine=kernel goes neither with --no-ring nor with --interpret\n");
            return;
        }
        if (chosen.spin_us != 0 && chosen.no_ring) {
            say("chainio call: --spin goes not with --no-ring: a pread sleeps at once\n");
            return;
        }
        auto words = read_words(command->remaining());
        if (!words) {
            say("chainio call: {}\n", diag::escaped(words.error()));
            return;
        }
        if (words->chain.empty()) {
            say("chainio call: an artifact and the name of a chain are wanted; `chainio inspect ARTIFACT` lists "
                "them\n");
            return;
        }
        chosen.words = std::move(*words);
        if (!split_pairs(parsed->args, "arg", chosen.words.named)) return;
        if (!take_files(parsed->files, chosen)) return;
        for (const CLI::Option* option : command->get_options()) {
            for (const std::string& name : option->get_lnames()) chosen.own_names.push_back(name);
        }
        chosen.output = parsed->output == "raw" ? Output::raw : parsed->output == "hex" ? Output::hex : Output::text;
        chosen.mode = parsed->direct     ? engine::OpenMode::direct
                      : parsed->buffered ? engine::OpenMode::buffered
                                         : engine::OpenMode::as_declared;
        exit_code = run_call(chosen);
    });
}

}  // namespace chainio::tool
