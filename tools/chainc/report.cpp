#include "tools/chainc/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/ir/cost.h"
#include "tools/chainc/limits.h"
#include "tools/chainc/pipeline.h"

namespace chainio::chainc {
namespace {

using Json = nlohmann::ordered_json;

std::string_view mode_text(ir::ChainMode mode) {
    switch (mode) {
        case ir::ChainMode::call: return "call";
        case ir::ChainMode::on_read: return "on read";
        case ir::ChainMode::on_open: return "on open";
        case ir::ChainMode::on_ready: return "on ready";
        case ir::ChainMode::on_probe: return "on probe";
    }
    return "?";
}

// A handler is no BPF program of its own, of which the stack would be known.
bool is_handler(const ir::Program& program) { return program.kind == ir::ProgramKind::handler; }

const backends::VerifiedProgram* verified(const Compilation& c, const std::string& name) {
    const auto found = std::ranges::find(c.verified.loaded, name, &backends::VerifiedProgram::program);
    return found == c.verified.loaded.end() ? nullptr : &*found;
}

std::size_t widest_name(const ir::Module& module) {
    std::size_t widest = 7;
    for (const ir::Program& program : module.programs) widest = std::max(widest, program.name.size());
    for (const ir::Chain& chain : module.chains) widest = std::max(widest, chain.name.size());
    return widest;
}

}  // namespace

std::string report_table(const Compilation& c) {
    const ir::Module& module = c.artifact.module;
    const std::size_t width = widest_name(module);
    std::string out = fmt::format("{:<{}}  instructions  stack\n", "program", width);
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        const ir::Program& program = module.programs[i];
        const std::string stack = is_handler(program) ? "-" : std::to_string(c.artifact.bounds[i].stack);
        out += fmt::format("{:<{}}  {:>12}  {:>5}\n", program.name, width, ir::instruction_bound(program), stack);
    }
    out += fmt::format("{:<{}}  {:>12}  {:>5}\n\n", "limit", width, most_instructions, most_stack);
    out += fmt::format("{:<{}}  mode      hops  in flight  largest read  state     memory\n", "chain", width);
    for (const ir::Chain& chain : module.chains) {
        const ir::ChainBounds bounds = ir::chain_bounds(c.artifact.module, c.artifact.layout, chain);
        out +=
            fmt::format("{:<{}}  {:<8}  {:>4}  {:>9}  {:>12}  {:>5}  {:>9}\n", chain.name, width, mode_text(chain.mode),
                        chain.hops, bounds.in_flight, bounds.block_bytes, chain.state_bytes, bounds.memory);
    }
    return out;
}

std::string report_json(const Compilation& c) {
    const ir::Module& module = c.artifact.module;
    Json root;
    root["app"] = module.app;
    root["programs"] = Json::array();
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        if (is_handler(module.programs[i])) continue;
        Json one;
        one["name"] = module.programs[i].name;
        one["instructions"] = c.artifact.bounds[i].instructions;
        one["stack"] = c.artifact.bounds[i].stack;
        if (const auto* loaded = verified(c, module.programs[i].name)) {
            one["verifier_processed"] = loaded->instructions_processed;
            one["verifier_stack"] = loaded->stack;
        }
        root["programs"].push_back(std::move(one));
    }
    root["handlers"] = Json::array();
    for (const ir::Program& program : module.programs)
        if (is_handler(program))
            root["handlers"].push_back({{"name", program.name}, {"instructions", ir::instruction_bound(program)}});
    root["chains"] = Json::array();
    for (const ir::Chain& chain : module.chains) {
        const ir::ChainBounds bounds = ir::chain_bounds(c.artifact.module, c.artifact.layout, chain);
        root["chains"].push_back({{"name", chain.name},
                                  {"mode", mode_text(chain.mode)},
                                  {"hops", chain.hops},
                                  {"in_flight", bounds.in_flight},
                                  {"largest_read", bounds.block_bytes},
                                  {"state", chain.state_bytes},
                                  {"memory", bounds.memory}});
    }
    root["io_bytes"] = c.artifact.layout.total;
    root["limits"] = {{"instructions", most_instructions}, {"stack", most_stack}, {"memory", most_memory}};
    return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace chainio::chainc
