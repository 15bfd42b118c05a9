// The C of the kernel engine's program: the loop around the step functions, which it finds in another object.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "compiler/backends/backends.h"
#include "compiler/backends/templates.h"

namespace chainio::backends {
namespace {

// The programs of all chains' steps, one chain after the other, as the runtime counts them.
std::string steps_text(const ir::Module& module) {
    std::vector<std::uint16_t> steps;
    for (const ir::Chain& chain : module.chains)
        for (const ir::Step& step : chain.steps) steps.push_back(step.program);
    steps.resize(std::bit_ceil(std::max<std::size_t>(steps.size(), 1)));
    return fmt::format("#define CIO_LOOP_STEPS {}\nstatic const u16 cio_loop_steps[CIO_LOOP_STEPS] = {{{}}};\n",
                       steps.size(), fmt::join(steps, ", "));
}

std::string dispatch_text(const ir::Module& module) {
    std::set<std::uint32_t> programs;
    for (const ir::Chain& chain : module.chains) {
        if (chain.mode != ir::ChainMode::call) continue;
        programs.insert(static_cast<std::uint32_t>(chain.entry));
        if (chain.done >= 0) programs.insert(static_cast<std::uint32_t>(chain.done));
        for (const ir::Step& step : chain.steps) programs.insert(step.program);
    }
    std::string text;
    for (std::uint32_t program : programs) text += fmt::format("CIO_FUNCTION(cio_program_{});\n", program);
    text +=
        "CIO_INLINE void cio_loop_program(u32 program, struct cio_mem *m, struct cio_block *b)\n{\nswitch (program) "
        "{\n";
    for (std::uint32_t program : programs) text += fmt::format("case {0}: cio_program_{0}(m, b); break;\n", program);
    return text + "}\n}\n";
}

}  // namespace

bool has_loop(const ir::Module& module) {
    return std::ranges::any_of(module.chains, [](const ir::Chain& chain) { return chain.mode == ir::ChainMode::call; });
}

std::string emit_loop(const ir::Artifact& artifact, std::string head) {
    std::string text = std::move(head);
    text += "#line 1 \"chainio_loop.h\"\n";
    text += template_text("chainio_loop.h");
    text += steps_text(artifact.module);
    text += dispatch_text(artifact.module);
    return text.append(template_text("chainio_loop_bpf.h"));
}

}  // namespace chainio::backends
