// Where the areas behind struct cio_io lie.
#include <algorithm>
#include <bit>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/artifact.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

struct Needs {
    std::uint32_t state = 0, arg_bytes = 0, out = 0;
    bool prefetch = false;
};

void collect(const Body& body, Needs& needs) {
    for (const Stmt& stmt : body) {
        if (auto* n = std::get_if<EmitInt>(&stmt.node)) needs.out = std::max(needs.out, n->limit);
        if (auto* n = std::get_if<EmitBytes>(&stmt.node)) needs.out = std::max(needs.out, n->limit);
        if (std::get_if<Prefetch>(&stmt.node)) needs.prefetch = true;
        for_each_body(stmt, [&](const Body& nested) { collect(nested, needs); });
    }
}

// Saturates instead of overflowing, so that validate() sees a size that is over the limit.
std::uint32_t add_saturating(std::uint32_t a, std::uint32_t b) { return a + b < a ? ~std::uint32_t{0} : a + b; }

std::uint32_t area_size(std::uint32_t needed) {
    if (needed == 0) return 0;
    constexpr std::uint32_t largest = CIO_MAX_OUT;
    return needed > largest ? largest : std::bit_ceil(std::max(needed, 8u));
}

}  // namespace

IoLayout layout_of(const Module& module) {
    Needs needs;
    for (const Chain& chain : module.chains) {
        needs.state = std::max(needs.state, chain.state_bytes);
        std::uint32_t bytes = 0;
        for (const Param& param : chain.params)
            if (param.kind == Param::Kind::bytes) bytes = add_saturating(bytes, param.max);
        needs.arg_bytes = std::max(needs.arg_bytes, bytes);
    }
    for (const Program& program : module.programs) collect(program.body, needs);

    IoLayout layout;
    std::uint32_t offset = static_cast<std::uint32_t>((sizeof(cio_io) + 63) / 64 * 64);
    auto place = [&](std::uint32_t size) {
        std::uint32_t at = offset;
        offset += (size + CIO_PAD + 63) / 64 * 64;
        return at;
    };
    layout.state_size = area_size(needs.state);
    layout.state_offset = place(layout.state_size);
    layout.arg_bytes_size = area_size(needs.arg_bytes);
    layout.arg_bytes_offset = place(layout.arg_bytes_size);
    layout.out_size = area_size(needs.out);
    layout.out_offset = place(layout.out_size);
    layout.prefetch_count = needs.prefetch ? CIO_MAX_PREFETCH : 0;
    layout.prefetch_offset = place(layout.prefetch_count * static_cast<std::uint32_t>(sizeof(cio_prefetch)));
    layout.total = offset;
    return layout;
}

}  // namespace chainio::ir
