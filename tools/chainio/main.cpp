#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/utf8.h"
#include "tools/chainio/call_args.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/parse_end.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/run/held.h"
#include "tools/chainio/standard_files.h"
#include "tools/chainio/words.h"

namespace {

std::vector<std::string> g_program_words;

// `chainio run … -- PROGRAM …`: takes off what is not ours to parse. Returns how many words are.
int take_program(int argc, char** argv) {
    if (argc < 2 || std::string_view(argv[1]) != "run") return argc;
    for (int i = 2; i < argc; i++) {
        if (std::string_view(argv[i]) != "--") continue;
        g_program_words.assign(argv + i + 1, argv + argc);
        return i;
    }
    return argc;
}

}  // namespace

const std::vector<std::string>& chainio::tool::program_words() { return g_program_words; }

int main(int argc, char** argv) {
    using namespace chainio::tool;
    chainio::run::release_loader_variables();
    if (!hold_standard_files("chainio")) return kExitSystem;
    try {
        CLI::App app{"Run programs with shadow chains beside them; run, inspect and test the chains of an artifact.",
                     "chainio"};
        app.set_version_flag("--version", std::string("chainio ") + CHAINIO_VERSION);
        app.require_subcommand(1);
        int exit_code = kExitOk;
        for (const AddCommand add : commands()) add(app, exit_code);
        // CLI11 would only say that a command is missing.
        std::vector<std::string> names;
        for (const auto* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
        if (argc > 1 && argv[1][0] != '-' && std::ranges::find(names, argv[1]) == names.end()) {
            say("chainio: there is no command '{}'{}\n", chainio::diag::escaped(argv[1]),
                suggestion(argv[1], names, "commands"));
            return kExitUsage;
        }
        try {
            app.parse(for_parser(app, take_program(argc, argv), argv));
        } catch (const CLI::ParseError& error) {
            const bool no_program = argc > 1 && std::string_view(argv[1]) == "run" && program_words().empty();
            const bool left_over = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
            return parse_end(app, error,
                             no_program && left_over
                                 ? "the program to run stands behind `--`: chainio run --spec SPEC -- PROGRAM …"
                                 : "");
        }
        return printed("chainio", exit_code);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "chainio: %s\n", in_words(error));
        return kExitSystem;
    }
}
