#include "tools/chainc/limits.h"

#include <fmt/format.h>

#include "compiler/ir/cost.h"
#include "tools/chainc/pipeline.h"
#include "tools/chainc/places.h"

namespace chainio::chainc {
namespace {

void check_instructions(Compilation& c, const Places& places) {
    const ir::Module& module = c.artifact.module;
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        if (module.programs[i].kind == ir::ProgramKind::handler) continue;
        const std::uint64_t bound = ir::instruction_bound(module.programs[i]);
        if (bound <= most_instructions) continue;
        c.diagnostics.report(601, places.of_program(i),
                             fmt::format("`{}` may execute {} instructions; the limit is {}", module.programs[i].name, bound, most_instructions),
                             "lower the `max` of its loops, search instead of looping, or split it into two steps");
    }
}

void check_chains(Compilation& c, const Places& places) {
    for (std::size_t i = 0; i < c.artifact.module.chains.size(); i++) {
        const ir::Chain& chain = c.artifact.module.chains[i];
        const ir::ChainBounds bounds = ir::chain_bounds(c.artifact.module, c.artifact.layout, chain);
        if (bounds.memory <= most_memory) continue;
        c.diagnostics.report(603, places.of_chain(i),
                             fmt::format("one run of `{}` may need {} KiB: {} reads in flight of {} bytes each; the limit is {} KiB", chain.name,
                                         bounds.memory >> 10, bounds.in_flight, bounds.block_bytes, most_memory >> 10),
                             "lower `hops`, queue fewer reads a step, or read less with a constant `for`");
    }
}

}  // namespace

void enforce_limits(Compilation& c) {
    const Places places(c);
    check_instructions(c, places);
    check_chains(c, places);
}

void enforce_stack(Compilation& c) {
    const Places places(c);
    for (std::size_t i = 0; i < c.artifact.bounds.size(); i++) {
        const std::uint32_t stack = c.artifact.bounds[i].stack;
        if (stack <= most_stack) continue;
        c.diagnostics.report(602, places.of_program(i),
                             fmt::format("`{}` needs {} bytes of stack; the limit is {}", c.artifact.module.programs[i].name, stack, most_stack),
                             "keep large values in `state`, or split it into two steps");
    }
}

}  // namespace chainio::chainc
