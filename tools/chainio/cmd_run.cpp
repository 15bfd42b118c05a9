// `chainio run --spec std/sqlite.chain -- sqlite3 big.db "select …"`: runs a program as it is, and its shadow chains
// beside it.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "compiler/diag/utf8.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/named.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/run/session.h"
#include "tools/chainio/sizes.h"
#include "tools/chainio/whole.h"

namespace chainio::tool {
namespace {

constexpr const char* kRunFooter =
    R"(chainio run --spec SPEC [OPTIONS] -- PROGRAM [ARGUMENTS]...

SPEC is an artifact of chainc, a .chain or .yaml source, or the name of one in a folder of -I or in the library:
std/sqlite.chain. What it is compiled to is kept in $XDG_CACHE_HOME/chainio.
The program has its terminal, its standard input and output and its signals as ever; chainio ends as the program does.
When something of ours is missing it runs plain, and one line says why.
Exit code: the program's; 1 the spec is wrong; 2 usage; 3 it cannot be read, or --strict refuses; 126 and 127 the
program cannot be executed.)";

struct RunGiven {
    run::RunOptions options;
    bool no_gate = false, no_cache = false;
};

// What other tools take for standard output would be a file here, and standard output is the program's.
std::string no_summary(const std::string& file) {
    return file == "-" ? "`-` names no file; /dev/stderr or /dev/stdout is a stream, and ./- a file of that name" : "";
}

void declare(CLI::App& command, RunGiven& parsed) {
    run::RunOptions& o = parsed.options;
    command.add_option("--spec", o.spec.name, "what the program's reads lead to")
        ->required()
        ->check(no_name)
        ->type_name("SPEC");
    command.add_option("-I", o.spec.include_dirs, "a folder to look for specs and imports in")
        ->allow_extra_args(false)
        ->check(no_name)
        ->type_name("DIR");
    command.add_option("-D,--param", o.spec.params, "a value for a `param` of the spec: pages='*.sqlite', SCANS=1")
        ->allow_extra_args(false)
        ->type_name("NAME=VALUE");
    command.add_flag("--follow", o.follow, "go on until every process of the run has ended, daemons too");
    command.add_flag("--explain", o.server.explain,
                     "say what the program opened, and which class took it or why none did");
    command.add_option("--summary", o.summary_file, "write the summary to this file instead of standard error")
        ->check(no_name)
        ->check(no_summary)
        ->type_name("FILE");
    command.add_flag("--json", o.json, "the summary as JSON");
    command.add_flag("--quiet", o.quiet, "no summary on standard error");
    command.add_flag("--strict", o.strict, "do not start the program when it would run plain");
    command.add_flag("--rewrite", o.rewrite,
                     "also catch system calls that dynamic programs make without libc, as Go does (x86-64)");
    command.add_option("--library", o.library, "the libchainio.so to preload")->check(no_name)->type_name("FILE");
    command.add_option("--in-flight", o.server.in_flight, "reads ahead at once (default 128)")
        ->transform(Whole(1, shadow::kMostInFlight));
    command.add_option("--memory", o.server.memory_bytes, "for blocks and scratch, 256 KiB to 16 GiB (default 32 MiB)")
        ->transform(Size());
    command
        .add_option("--ahead", o.server.ahead_bytes,
                    "what may be fetched and not read yet, 256 KiB to 16 GiB (default 256 MiB)")
        ->transform(Size());
    command
        .add_option("--served", o.server.served_bytes,
                    "for reads with O_DIRECT of immutable files, 1 MiB to 64 GiB (default 64 MiB; 0: none)")
        ->transform(Size());
    command.add_flag("--no-gate", parsed.no_gate, "keep chains on that do not pay");
    command.add_flag("--no-cache", parsed.no_cache, "compile the spec anew, and keep nothing");
}

}  // namespace

void add_run(CLI::App& root, int& exit_code) {
    auto parsed = std::make_shared<RunGiven>();
    auto* command = root.add_subcommand("run", "Run a program, and its shadow chains beside it");
    command->footer(kRunFooter);
    declare(*command, *parsed);
    command->callback([parsed, &exit_code] {
        run::RunOptions& options = parsed->options;
        options.words = program_words();
        options.spec.use_cache = !parsed->no_cache;
        options.server.gate = !parsed->no_gate;
        exit_code = kExitUsage;
        if (options.words.empty()) {
            say("chainio run: the program to run stands behind `--`: chainio run --spec {} -- PROGRAM …\n",
                diag::escaped(options.spec.name));
            return;
        }
        if (const std::string wrong = shadow::wrong_options(options.server); !wrong.empty()) {
            say("chainio run: {}\n  hint: `chainio run --help` lists the options\n", wrong);
            return;
        }
        exit_code = run::run(options);
    });
}

}  // namespace chainio::tool
