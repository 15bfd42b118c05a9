// Modules from any bytes, run by the interpreter over blocks of noise: nothing leaves its area, and the passes change
// nothing that an engine can see.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "compiler/backends/backends.h"
#include "compiler/ir/cost.h"
#include "compiler/ir/interpret.h"
#include "compiler/passes/lower.h"

namespace {

using namespace chainio;
constexpr std::uint64_t affordable = 50'000;  // instructions of one run
constexpr std::uint32_t block_length = 4096;

struct FreeIo {
    void operator()(cio_io* io) const { std::free(io); }
};
using Io = std::unique_ptr<cio_io, FreeIo>;

// Arguments and state are noise too: an engine gives a program whatever a user gave it.
Io make_io(const ir::IoLayout& layout, std::uint32_t seed) {
    const std::size_t bytes = (std::size_t{layout.total} + CIO_PAD + 63) / 64 * 64;
    Io io(static_cast<cio_io*>(std::aligned_alloc(64, bytes)));
    std::memset(static_cast<void*>(io.get()), 0, bytes);
    std::mt19937 random(seed);
    auto* memory = reinterpret_cast<std::uint8_t*>(io.get());
    for (std::uint32_t i = 0; i < layout.state_size; i++)
        memory[layout.state_offset + i] = static_cast<std::uint8_t>(random());
    for (auto& arg : io->args) arg = random() % 200;
    io->block_offset = random() % 65536;
    io->block_length = block_length;
    return io;
}

// What an engine reads after a program ran; the scratch variables are the back end's own.
bool same_answer(const ir::IoLayout& layout, const cio_io& a, const cio_io& b) {
    if (a.outcome != b.outcome || a.finished != b.finished) return false;
    if (a.outcome != CIO_OK) return true;  // nothing else is read then
    if (a.result_kind != b.result_kind || a.next_count != b.next_count || a.out_length != b.out_length) return false;
    if (a.result_kind == CIO_RESULT_SCALAR && a.result != b.result) return false;
    if (a.result_kind == CIO_RESULT_SLICE && (a.slice_offset != b.slice_offset || a.slice_length != b.slice_length))
        return false;
    if (std::memcmp(a.next, b.next, a.next_count * sizeof a.next[0]) != 0) return false;
    const auto *x = reinterpret_cast<const std::uint8_t*>(&a), *y = reinterpret_cast<const std::uint8_t*>(&b);
    if (std::memcmp(x + layout.out_offset, y + layout.out_offset, a.out_length) != 0) return false;
    return std::memcmp(x + layout.state_offset, y + layout.state_offset, layout.state_size) == 0;
}

void compare(const ir::Artifact& before, const ir::Artifact& after, std::uint32_t program, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::uint8_t> block(block_length + CIO_PAD);
    for (auto& byte : block) byte = static_cast<std::uint8_t>(seed % 2 == 0 ? random() : random() % 4);
    const Io a = make_io(before.layout, seed), b = make_io(after.layout, seed);
    ir::Trace trace;
    ir::interpret(before, program, *a, block.data(), trace);
    if (trace.out_of_range) std::abort();
    ir::interpret(after, program, *b, block.data());
    if (!same_answer(before.layout, *a, *b)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto read = ir::deserialize({data, size});
    if (!read) return 0;
    ir::Artifact before{read->module, ir::layout_of(read->module), read->bounds};
    if (before.layout.total > (1U << 20)) return 0;
    ir::Artifact after = before;
    passes::run_passes(after.module);
    after.layout = before.layout;
    if (!ir::validate(after.module).empty()) std::abort();
    if (backends::emit_c(after).empty()) std::abort();
    for (std::uint32_t program = 0; program < before.module.programs.size(); program++) {
        if (before.module.programs[program].kind == ir::ProgramKind::handler) continue;
        if (ir::instruction_bound(before.module.programs[program]) > affordable) continue;
        for (std::uint32_t seed = 0; seed < 4; seed++) compare(before, after, program, seed);
    }
    return 0;
}
