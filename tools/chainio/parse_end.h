// What is said, and the exit code, when parsing a command line ends the program: help, the version, or wrong usage.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>
#include <string>

#include "compiler/diag/utf8.h"
#include "tools/chainio/printed.h"

namespace chainio::tool {

// `hint`: what is likely to help, in place of the list of options.
inline int parse_end(const CLI::App& app, const CLI::ParseError& error, const std::string& hint = {}) {
    if (error.get_exit_code() == 0) {
        std::ostringstream text;  // stdout alone keeps why it could not be written
        app.exit(error, text);
        std::fputs(text.str().c_str(), stdout);
        return printed(app.get_name().c_str(), 0);
    }
    std::string command = app.get_name();
    for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands())
        command += " " + chosen.front()->get_name();
    // CLI11 names what is left over from the last word to the first, and not at all where something else is missing: a
    // word that is wrong, most often, as that of a command.
    std::string what = error.what();
    const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    const auto words = app.remaining(true);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || (is_missing && !words.empty())) {
        what = words.size() == 1 ? "The following argument was not expected:"
                                 : "The following arguments were not expected:";
        for (const std::string& word : words) what += " " + word;
    }
    const std::string options = "`" + command + " --help` lists the options";
    std::fprintf(stderr, "%s: %s\n  hint: %s\n", command.c_str(), diag::escaped(what).c_str(),
                 (hint.empty() ? options : hint).c_str());
    return 2;
}

}  // namespace chainio::tool
