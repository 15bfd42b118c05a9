#include "tools/chainc/bounds.h"

#include <algorithm>

#include "bpf-templates/chainio_step.h"

namespace chainio::chainc {
namespace {

struct Reads {
    std::uint32_t count = 0;    // most that one run of the program queues
    std::uint32_t largest = 0;  // bytes
};

std::uint32_t capped(std::uint64_t count) { return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, CIO_MAX_NEXT)); }

Reads reads_of(const ir::Body& body) {
    Reads sum;
    for (const ir::Stmt& stmt : body) {
        Reads here;
        if (const auto* next = std::get_if<ir::Next>(&stmt.node)) {
            const std::uint64_t length = next->length.is_imm ? next->length.value : CIO_MAX_BLOCK;
            here = {1, static_cast<std::uint32_t>(std::min<std::uint64_t>(length, CIO_MAX_BLOCK))};
        } else if (const auto* branch = std::get_if<ir::If>(&stmt.node)) {
            const Reads yes = reads_of(branch->yes), no = reads_of(branch->no);
            here = {std::max(yes.count, no.count), std::max(yes.largest, no.largest)};
        } else if (const auto* loop = std::get_if<ir::Loop>(&stmt.node)) {
            here = reads_of(loop->body);
            here.count = capped(std::uint64_t{here.count} * loop->max);
        }
        sum = {capped(std::uint64_t{sum.count} + here.count), std::max(sum.largest, here.largest)};
    }
    return sum;
}

}  // namespace

ChainBounds bounds_of(const ir::Artifact& artifact, const ir::Chain& chain) {
    const auto program = [&](std::int32_t index) {
        return index < 0 ? Reads{} : reads_of(artifact.module.programs[static_cast<std::size_t>(index)].body);
    };
    const Reads first = program(chain.entry);
    ChainBounds bounds{.in_flight = 0, .largest_read = first.largest, .memory = artifact.layout.total};
    std::uint64_t fan_out = 0;
    for (const ir::Step& step : chain.steps) {
        const Reads reads = program(step.program);
        fan_out = std::max<std::uint64_t>(fan_out, reads.count);
        bounds.largest_read = std::max(bounds.largest_read, reads.largest);
    }
    // After h reads at most first + h * (fan_out - 1) are queued, and never more than the hops - h that are left. The two meet
    // at h = (hops - first) / fan_out; the most is at one of the whole numbers beside that.
    std::uint64_t queued = std::min(first.count, chain.hops);
    if (fan_out > 1) {
        const std::uint64_t h = (chain.hops - queued) / fan_out;
        const std::uint64_t after = chain.hops > h ? chain.hops - h - 1 : 0;
        queued = std::max(queued + h * (fan_out - 1), after);
    }
    bounds.in_flight = static_cast<std::uint32_t>(queued);
    bounds.memory += queued * (bounds.largest_read + std::uint64_t{CIO_PAD});
    return bounds;
}

}  // namespace chainio::chainc
