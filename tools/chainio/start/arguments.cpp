#include "tools/chainio/start/arguments.h"

#include <algorithm>
#include <string_view>

#include "tools/chainio/run/descriptor_name.h"

namespace chainio::start {
namespace {

using Args = std::span<const char* const>;

// The value of an option at the head of `args`, which is taken off: `--name VALUE`, `--name=VALUE`, `-n VALUE`,
// `-nVALUE`. Values that look like options are left to the whole program to judge.
std::optional<std::string> value_of(Args& args, std::string_view name) {
    const std::string_view word(args.front());
    const bool is_long = name.starts_with("--");
    if (word == name) {
        if (args.size() < 2 || args[1][0] == '-' || args[1][0] == 0) return std::nullopt;
        const std::string value(args[1]);
        args = args.subspan(2);
        return value;
    }
    if (!word.starts_with(name)) return std::nullopt;
    std::string_view rest = word.substr(name.size());
    if (is_long && !rest.starts_with('=')) return std::nullopt;
    if (is_long) rest.remove_prefix(1);
    if (rest.empty() || (!is_long && rest.starts_with('='))) return std::nullopt;
    args = args.subspan(1);
    return std::string(rest);
}

bool take_flag(Args& args, std::string_view name, bool& flag) {
    if (args.front() != name) return false;
    flag = true;
    args = args.subspan(1);
    return true;
}

struct Options {
    bool json = false, quiet = false, no_gate = false;
    std::string summary;
};

bool take_option(Args& args, Arguments& out, Options& options) {
    if (take_flag(args, "--follow", out.follow) || take_flag(args, "--explain", out.explain)) return true;
    if (take_flag(args, "--json", options.json) || take_flag(args, "--quiet", options.quiet)) return true;
    if (take_flag(args, "--no-gate", options.no_gate)) return true;
    for (const auto& [name, to] :
         {std::pair{"--spec", &out.spec.name}, {"--library", &out.library}, {"--summary", &options.summary}}) {
        auto value = value_of(args, name);
        if (!value) continue;
        if (!to->empty()) return false;
        *to = std::move(*value);
        return true;
    }
    for (const auto& [name, to] :
         {std::pair{"-D", &out.spec.params}, {"--param", &out.spec.params}, {"-I", &out.spec.include_dirs}}) {
        if (auto value = value_of(args, name)) {
            to->push_back(std::move(*value));
            return true;
        }
    }
    return false;
}

// Which has to be kept for the whole program, and is not. Of links, the summary's is followed here: what the spec is
// found by is known later.
bool may_be_descriptor(const std::string& path) { return path.starts_with("/dev/") || path.starts_with("/proc/"); }

}  // namespace

std::optional<Arguments> understand(Args argv) {
    if (argv.size() < 2 || std::string_view(argv[1]) != "run") return std::nullopt;
    Arguments out;
    Options options;
    Args args = argv.subspan(2);
    while (!args.empty() && std::string_view(args.front()) != "--")
        if (!take_option(args, out, options)) return std::nullopt;
    if (args.size() < 2 || out.spec.name.empty()) return std::nullopt;
    if (may_be_descriptor(options.summary) || run::descriptor_named(options.summary) ||
        may_be_descriptor(out.spec.name) || std::ranges::any_of(out.spec.include_dirs, may_be_descriptor))
        return std::nullopt;
    for (const char* word : args.subspan(1)) out.words.emplace_back(word);
    out.silent = options.quiet && options.summary.empty();
    return out;
}

}  // namespace chainio::start
