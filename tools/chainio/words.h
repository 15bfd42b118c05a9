// The words of a command line as CLI11 is to read them.
#pragma once
#include <CLI/App.hpp>
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace chainio::tool {

// Of the program or one of its commands.
inline bool takes_value(const CLI::App& app, const std::string& option) {
    const CLI::Option* found = app.get_option_no_throw(option);
    if (found != nullptr && found->get_items_expected_max() > 0) return true;
    return std::ranges::any_of(app.get_subcommands(nullptr),
                               [&](const CLI::App* command) { return takes_value(*command, option); });
}

// Of the program, or of the command that the words name.
inline bool is_flag(const CLI::App& app, std::span<const std::string> words, const std::string& option) {
    const CLI::Option* found = app.get_option_no_throw(option);
    if (found != nullptr) return found->get_items_expected_max() == 0;
    if (words.empty()) return false;
    return std::ranges::any_of(app.get_subcommands(nullptr), [&](const CLI::App* command) {
        return command->get_name() == words.front() && is_flag(*command, words.subspan(1), option);
    });
}

// For parse(), from the last to the first. Of `--option=`, as a script has it whose variable is not set, CLI11 takes
// the next word for the value; in two words the value is empty, and the option's own check says what it thinks of it. A
// flag has none, and would be set.
inline std::vector<std::string> for_parser(const CLI::App& app, std::vector<std::string> words) {
    std::vector<std::string> result;
    bool options_ended = false;
    for (std::string& word : words) {
        options_ended |= word == "--";
        const bool no_value = !options_ended && word.starts_with("--") && word.find('=') == word.size() - 1;
        const std::string option = no_value ? word.substr(0, word.size() - 1) : std::string();
        if (no_value && takes_value(app, option)) {
            result.insert(result.end(), {option, ""});
            continue;
        }
        if (no_value && is_flag(app, result, option)) throw CLI::ValidationError(option, "nothing stands behind the =");
        result.push_back(std::move(word));
    }
    std::ranges::reverse(result);
    return result;
}

inline std::vector<std::string> for_parser(const CLI::App& app, int argc, const char* const* argv) {
    return for_parser(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

}  // namespace chainio::tool
