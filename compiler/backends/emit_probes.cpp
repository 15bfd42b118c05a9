// The C of the probes: one program each, that copies its arguments into a record of the ring.
#include "compiler/backends/emit_probes.h"

#include <fmt/format.h>

#include "compiler/backends/templates.h"
#include "compiler/ir/probe_layout.h"

namespace chainio::backends {
namespace {

std::string argument_text(const ir::ProbeArg& arg, std::size_t k, std::uint32_t text_at, bool is_syscall) {
    std::string text = fmt::format("\tCIO_PROBE_AT_{}({})\n", is_syscall ? "SYSCALL" : "SITE", k);
    if (arg.cstr) return text + fmt::format("\tCIO_PROBE_TEXT({}, {}, {})\n", k, text_at, arg.max);
    return text + fmt::format("\tCIO_PROBE_{}({}, {})\n", arg.is_signed ? "SIGNED" : "UNSIGNED", k, 64 - arg.bits);
}

}  // namespace

std::string probe_texts(const ir::Module& module) {
    if (module.probes.empty()) return "";
    std::string text = "#if defined(CIO_BPF) && !defined(CIO_OWN_ENTRY)\n#line 1 \"chainio_probe.h\"\n";
    text += template_text("chainio_probe.h");
    text += template_text("chainio_probe_bpf.h");
    for (std::size_t i = 0; i < module.probes.size(); i++) {
        const ir::Probe& probe = module.probes[i];
        ir::ProbeLayout layout = ir::layout_of(probe);
        bool is_syscall = probe.kind == "syscall";
        text += fmt::format("\n/* probe {} */\nCIO_PROBE_{}({}, {})\n", probe.name, is_syscall ? "SYSCALL" : "SITE", i,
                            layout.bytes);
        for (std::size_t k = 0; k < probe.args.size(); k++)
            text += argument_text(probe.args[k], k, layout.text_at[k], is_syscall);
        text += fmt::format("CIO_PROBE_END({})\n", i);
    }
    return text + "#endif\n";
}

std::vector<std::string> probe_programs(const ir::Module& module) {
    if (module.probes.empty()) return {};
    std::vector<std::string> names{"cio_probe_join", "cio_probe_fork", "cio_probe_exit"};
    for (std::size_t i = 0; i < module.probes.size(); i++) names.push_back(fmt::format("cio_probe_{}", i));
    return names;
}

}  // namespace chainio::backends
