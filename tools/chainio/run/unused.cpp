#include "tools/chainio/run/unused.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/patterns.h"
#include "runtime/shim/glob.h"

namespace chainio::run {
namespace {

bool is_on_files(const ir::Chain& chain) {
    return chain.mode == ir::ChainMode::on_read || chain.mode == ir::ChainMode::on_open;
}

// As its parameters are, it may ask for nothing whatever it is shown: then nobody looks for its files.
bool asks(const ir::Module& module, const ir::Chain& chain) {
    return chain.shadow >= 0 && !module.programs[static_cast<std::size_t>(chain.shadow)].body.empty();
}

// A class that the run does not look at has no figures.
bool is_unmatched(const Figures& figures, const std::string& name) {
    const auto found = std::ranges::find(figures.classes, name, &ClassFigures::name);
    return found != figures.classes.end() && found->opened + found->reads == 0;
}

}  // namespace

bool any_use(const Figures& figures) {
    return std::ranges::any_of(figures.classes, [](const ClassFigures& c) { return c.opened + c.reads != 0; }) ||
           std::ranges::any_of(figures.chains, [](const ChainFigures& c) { return c.runs != 0; });
}

std::vector<std::string> patterns_of(const ir::Module& module) {
    std::vector<std::string> all;
    for (const auto& file : module.files) all.push_back(fmt::format("{} = \"{}\"", file.name, file.pattern));
    for (const auto& socket : module.sockets)
        all.push_back(fmt::format("{} = {} port {}", socket.name, socket.tcp ? "tcp" : "udp", socket.port));
    return all;
}

std::string why_unused(const ir::Module& module, const std::string& program) {
    const auto matches = [&](const std::string& pattern) {
        return shim::glob_matches(pattern.c_str(), program.c_str());
    };
    if (!module.match_exe.empty() && std::ranges::none_of(module.match_exe, matches))
        return fmt::format("the spec is for programs that match {}, and {} does not", fmt::join(module.match_exe, ", "),
                           program);
    return fmt::format("nothing that the program opened is in a class of the spec ({}); --explain lists what it opened",
                       fmt::join(patterns_of(module), ", "));
}

std::vector<std::string> unmatchable(const ir::Module& module) {
    std::set<std::uint32_t> sources;
    for (const ir::Chain& chain : module.chains)
        if (is_on_files(chain)) sources.insert(chain.source);
    std::vector<std::string> notes;
    for (const std::uint32_t source : sources) {
        const ir::FileClass& files = module.files[source];
        if (const auto instead = ir::anywhere_instead_of(files.pattern))
            notes.push_back(
                fmt::format("the pattern {} = \"{}\" is compared with whole paths, which begin with /, and does not "
                            "begin so; write \"{}\" for any folder, or the path from / on",
                            files.name, files.pattern, *instead));
    }
    return notes;
}

std::vector<std::string> unmatched_sources(const ir::Module& module, const Figures& figures, bool all) {
    const bool any_ran = std::ranges::any_of(figures.chains, [](const ChainFigures& c) { return c.runs != 0; });
    if (any_ran && !all) return {};
    std::map<std::uint32_t, std::vector<std::string>> chains;  // by class
    for (const ir::Chain& chain : module.chains) {
        if (is_on_files(chain) && asks(module, chain) && is_unmatched(figures, module.files[chain.source].name))
            chains[chain.source].push_back("'" + chain.name + "'");
    }
    std::vector<std::string> notes;
    for (const auto& [source, names] : chains)
        notes.push_back(fmt::format("no file matched class {} (\"{}\"), so chain{} {} never ran{}",
                                    module.files[source].name, module.files[source].pattern,
                                    names.size() == 1 ? "" : "s", fmt::join(names, ", "),
                                    all ? "" : "; --explain lists what the program opened"));
    return notes;
}

}  // namespace chainio::run
