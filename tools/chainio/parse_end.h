// What is said, and the exit code, when parsing a command line ends the program: help, the version, or wrong usage.
#pragma once
#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/diag/utf8.h"
#include "tools/chainio/printed.h"

namespace chainio::tool {

// An option or a command that a word which was not expected may mean; empty when there is none.
inline std::string meant_word(const CLI::App& app, const std::vector<std::string>& words) {
    if (words.empty()) return {};
    const std::string word = words.front().substr(0, words.front().find('='));
    std::vector<std::string> names;
    if (word.starts_with("--")) {
        for (const CLI::Option* option : app.get_options())
            for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    } else {
        for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
    }
    const auto near = diag::nearest(word, names);
    return near ? "did you mean `" + *near + "`?" : "";
}

// `hint`: what is likely to help, in place of the list of options.
inline int parse_end(const CLI::App& app, const CLI::ParseError& error, const std::string& hint = {}) {
    if (error.get_exit_code() == 0) {
        std::ostringstream text;
        app.exit(error, text);
        print_text(text.str());
        return printed(app.get_name().c_str(), 0);
    }
    std::string command = app.get_name();
    const CLI::App* last = &app;
    for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = last->get_subcommands()) {
        last = chosen.front();
        command += " " + last->get_name();
    }
    // CLI11 names what is left over from the last word to the first, and not at all where something else is missing: a
    // word that is wrong, most often, as that of a command.
    std::string what = error.what(), meant;
    const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    const auto words = app.remaining(true);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr || (is_missing && !words.empty())) {
        what = words.size() == 1 ? "The following argument was not expected:"
                                 : "The following arguments were not expected:";
        for (const std::string& word : words) what += " " + word;
        meant = meant_word(*last, words);
    }
    const std::string options = "`" + command + " --help` lists the options";
    say("{}: {}\n  hint: {}\n", command, diag::escaped(what),
        diag::escaped(!meant.empty() ? meant
                      : hint.empty() ? options
                                     : hint));
    return 2;
}

}  // namespace chainio::tool
