// The C of the kernel engine's program: the loop around the step functions, which it finds in another object.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "compiler/backends/backends.h"
#include "compiler/backends/emit_function.h"
#include "compiler/backends/templates.h"
#include "compiler/ir/kernel_handlers.h"

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

// The handlers of services that the kernel can answer, and what runs one by its number.
std::string handlers_text(const ir::Artifact& artifact) {
    const auto programs = ir::kernel_handlers(artifact.module);
    const auto calls = ir::kernel_calls(artifact.module);
    Helpers helpers;
    std::string text, choice;
    for (const std::uint32_t program : programs) {
        const Placement placement = place(artifact.module.programs[program]);
        text += FunctionEmitter(artifact, program, placement, helpers).handler(calls);
        choice += fmt::format("case {0}: return cio_handler_{0}(m, b, c, r, o);\n", program);
    }
    return helpers.text() + text +
           "CIO_INLINE int cio_serve_handler(u32 program, struct cio_mem *m, struct cio_block *b, struct cio_conn *c, "
           "struct cio_block *r, struct cio_block *o)\n{\nswitch (program) {\n" +
           choice + "}\nreturn CIO_STOP;\n}\n";
}

}  // namespace

bool has_loop(const ir::Module& module) { return ir::has_call_chain(module); }

std::string emit_loop(const ir::Artifact& artifact, std::string head) {
    std::string text = std::move(head);
    text += "#line 1 \"chainio_loop.h\"\n";
    text += template_text("chainio_loop.h");
    text += steps_text(artifact.module);
    text += dispatch_text(artifact.module);
    text += template_text("chainio_loop_bpf.h");
    return text.append(template_text("chainio_loop_run_bpf.h"));
}

bool has_serving(const ir::Module& module) { return !ir::kernel_services(module).empty(); }

std::string emit_serving(const ir::Artifact& artifact, std::string head) {
    const ir::Module& module = artifact.module;
    std::string text = std::move(head);
    text += fmt::format("#define CIO_SERVE\n#define CIO_HANDLER_REGS {}\n#define CIO_REPLY_BYTES {}\n",
                        ir::most_kernel_registers(module), ir::longest_kernel_reply(module));
    text += "#line 1 \"chainio_loop.h\"\n";
    text += template_text("chainio_loop.h");
    text += template_text("chainio_serve.h");
    text += template_text("chainio_handler.h");
    text += steps_text(module);
    text += dispatch_text(module);
    text += handlers_text(artifact);
    for (const char* name :
         {"chainio_loop_bpf.h", "chainio_loop_run_bpf.h", "chainio_serve_issue_bpf.h", "chainio_serve_bpf.h"}) {
        text += fmt::format("\n#line 1 \"{}\"\n", name);
        text += template_text(name);
    }
    return text;
}

}  // namespace chainio::backends
