// One C text from one artifact: the prelude, the helpers that its programs use, the programs.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "bpf-templates/chainio_step.h"
#include "compiler/backends/backends.h"
#include "compiler/backends/emit_function.h"
#include "compiler/backends/emit_probes.h"
#include "compiler/backends/templates.h"

namespace chainio::backends {
namespace {

std::string layout_text(const ir::Artifact& artifact, std::uint32_t slots) {
    const ir::IoLayout& io = artifact.layout;
    std::string text;
    auto define = [&](std::string_view name, std::uint64_t value) {
        text += fmt::format("#define CIO_{} {}\n", name, value);
    };
    define("TOTAL", io.total);
    define("STATE_OFFSET", io.state_offset);
    define("STATE_SIZE", io.state_size);
    define("ARG_BYTES_OFFSET", io.arg_bytes_offset);
    define("ARG_BYTES_SIZE", io.arg_bytes_size);
    define("OUT_OFFSET", io.out_offset);
    define("OUT_SIZE", io.out_size);
    define("PREFETCH_OFFSET", io.prefetch_offset);
    define("PREFETCH_COUNT", io.prefetch_count);
    define("PREFETCH_MASK", io.prefetch_count == 0 ? 0 : std::bit_ceil(io.prefetch_count) - 1);
    define("LITERAL_SIZE", std::bit_ceil(std::max<std::size_t>(artifact.module.literals.size(), 8)));
    define("VARS", std::max(slots, 1u));
    define("FIRST_SPILL", kFirstSpill);
    define("SPILL", slots > kFirstSpill ? slots - kFirstSpill : 0);
    return text;
}

// Also where there are none: the empty string is a place among them, too.
std::string literals_text(const std::vector<std::uint8_t>& bytes) {
    std::string text = "static const u8 cio_literals[CIO_LITERAL_SIZE + CIO_PAD] =\n\"";
    for (std::size_t i = 0; i < bytes.size(); i++) {
        if (i % 32 == 0 && i != 0) text += "\"\n\"";
        text += fmt::format("\\{:03o}", bytes[i]);
    }
    return text + "\";\n";
}

}  // namespace

StepText emit_steps(const ir::Artifact& artifact) {
    Helpers helpers;
    std::string programs;
    std::uint32_t slots = 0;
    const auto& all = artifact.module.programs;
    for (std::uint32_t i = 0; i < all.size(); i++) {
        if (all[i].kind == ir::ProgramKind::handler) continue;
        Placement placement = place(all[i]);
        slots = std::max(slots, placement.slots);
        programs += FunctionEmitter(artifact, i, placement, helpers).program();
    }
    std::string text(template_text("chainio_prelude.h"));
    text += template_text("chainio_step.h");
    text += layout_text(artifact, slots);
    text += literals_text(artifact.module.literals);
    text += "#ifdef CIO_BPF\n";
    text += template_text("chainio_bpf.h");
    text += "#else\n";
    text += template_text("chainio_native.h");
    text += "#endif\n";
    text += template_text("chainio_ops.h");
    return {text, helpers.text() + programs + probe_texts(artifact.module)};
}

std::string emit_c(const ir::Artifact& artifact) {
    StepText text = emit_steps(artifact);
    return text.head + text.body;
}

}  // namespace chainio::backends
