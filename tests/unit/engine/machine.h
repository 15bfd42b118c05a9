// A module whose chains are made by the bytes that they read: random blocks give random chains, with loops, fan-out,
// ends of every kind and reads past the end of the file. Layout of a block: op, child count, 6 bytes, a u64 for the
// sum, then 8 bytes a child: offset u32le, length u16le, selector (bit 0 step, bit 1 file), 1 byte.
#pragma once
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "compiler/ir/artifact.h"
#include "compiler/ir/builder.h"

namespace chainio::engine::test {

enum Op : std::uint8_t { kReturnSlice, kReturnSum, kNotFound, kUserReason, kEmit, kBroken, kReturnState, kCarryOn };

struct MachineOptions {
    std::uint32_t hops = 40;
    ir::ResultKind result = ir::ResultKind::none;
    bool with_done = false;
    std::uint64_t cache_bytes = 0;
    std::uint32_t cache_levels = 0;
    std::uint32_t priority = 0;
};

// Returns what the chain's declared kind of result allows.
inline ir::Return machine_return(ir::ResultKind kind, ir::Operand scalar, ir::Slice slice) {
    if (kind == ir::ResultKind::scalar) return {kind, scalar, {}};
    if (kind == ir::ResultKind::slice) return {kind, ir::Operand::imm(0), slice};
    return {kind, ir::Operand::imm(0), {}};
}

inline ir::Program machine_step(const std::string& name, std::uint64_t factor, ir::ResultKind kind) {
    using namespace ir;
    Builder b(name, ProgramKind::step);
    const auto imm = [](std::uint64_t v) { return Operand::imm(v); };
    b.check_range(Space::block, imm(0), imm(16), CIO_MALFORMED);
    const Operand op = b.load(Space::block, imm(0), 1);
    const Operand count = b.load(Space::block, imm(1), 1);
    const Operand word = b.load(Space::block, imm(8), 8);
    const Operand old = b.load(Space::state, imm(0), 8);
    const Operand tag = b.input(Input::block_tag);
    const Operand sum =
        b.binary(BinOp::add, b.binary(BinOp::mul, old, imm(factor)), b.binary(BinOp::bit_xor, word, tag));
    b.add(StoreState{imm(0), 8, sum});
    const auto when = [&](Op which, const std::function<void()>& body) {
        b.if_(b.binary(BinOp::eq, op, imm(which)), body);
    };
    when(kReturnSlice, [&] { b.add(machine_return(kind, word, Slice{Space::block, imm(4), imm(12)})); });
    when(kReturnSum, [&] { b.add(machine_return(kind, sum, Slice{Space::literal, imm(1), imm(2)})); });
    when(kNotFound, [&] { b.add(Fail{CIO_NOT_FOUND}); });
    when(kUserReason, [&] { b.add(Fail{CIO_USER}); });
    when(kEmit, [&] { b.add(EmitInt{sum, 8, 64}); });
    when(kBroken, [&] { b.check(imm(0), CIO_MALFORMED); });
    when(kReturnState, [&] { b.add(machine_return(kind, old, Slice{Space::state, imm(0), imm(8)})); });
    b.loop(count, 20, CIO_MALFORMED, [&](Operand i) {
        const Operand at = b.binary(BinOp::add, b.binary(BinOp::mul, i, imm(8)), imm(16));
        b.check_range(Space::block, at, imm(8), CIO_MALFORMED);
        const Operand offset = b.load(Space::block, at, 4);
        const Operand length = b.load(Space::block, b.binary(BinOp::add, at, imm(4)), 2);
        const Operand selector = b.load(Space::block, b.binary(BinOp::add, at, imm(6)), 1);
        for (std::uint16_t which = 0; which < 4; which++) {
            const auto step = static_cast<std::uint16_t>(which & 1), file = static_cast<std::uint16_t>(which >> 1);
            b.if_(b.binary(BinOp::eq, b.binary(BinOp::bit_and, selector, imm(3)), imm(which)),
                  [&] { b.add(Next{step, file, offset, length, i}); });
        }
    });
    return b.finish();
}

// Chain 0 takes (a: file, b: file, start: u64, name: bytes(max 16)); chain 1 is the same in the next class.
inline ir::Artifact machine(const MachineOptions& options) {
    using namespace ir;
    Module m;
    m.app = "machine";
    m.sources = {"machine.chain"};
    m.reasons = {"own_word"};
    m.literals = {'l', 'i', 't'};
    for (const char* name : {"plain", "kept"}) {
        FileClass file;
        file.name = name;
        file.pattern = "*";
        m.files.push_back(file);
    }
    m.files[1].immutable = options.cache_levels != 0;
    m.files[1].cache_bytes = options.cache_bytes;
    m.files[1].cache_levels = options.cache_levels;
    m.classes.push_back({"urgent", options.priority, 3, {}});
    m.classes.push_back({"bulk", 7, 1, {}});
    const auto add = [&](Program p) {
        m.programs.push_back(std::move(p));
        return static_cast<std::uint16_t>(m.programs.size() - 1);
    };
    for (std::uint16_t which = 0; which < 2; which++) {
        const std::string name = which == 0 ? "first" : "second";
        Builder entry(name + ".entry", ProgramKind::entry);
        const Operand start = entry.arg(0);
        const Operand name_length = entry.arg(2);
        entry.if_(entry.binary(BinOp::eq, start, Operand::imm(7)), [&] { entry.add(Fail{CIO_BAD_ARGUMENT}); });
        entry.add(Next{0, which, start, Operand::imm(64), name_length});
        Chain c;
        c.name = name;
        c.priority_class = which;
        c.params = {{Param::Kind::file, "a", 0, 0, 64, false, 0},
                    {Param::Kind::file, "b", 1, 1, 64, false, 0},
                    {Param::Kind::scalar, "start", 0, 0, 40, false, 0},
                    {Param::Kind::bytes, "name", 1, 0, 64, false, 16}};
        c.arg_slots = 3;
        c.result = options.result;
        c.result_max = 64;
        c.hops = options.hops;
        c.state_bytes = 8;
        c.initial_state = {1, 2, 3, 4, 5, 6, 7, static_cast<std::uint8_t>(8 + which)};
        c.entry = add(entry.finish());
        c.steps = {{"one", add(machine_step(name + ".one", 31, options.result))},
                   {"two", add(machine_step(name + ".two", 1000003, options.result))}};
        if (options.with_done) {
            Builder done(name + ".done", ProgramKind::done);
            done.add(machine_return(options.result, done.load(Space::state, Operand::imm(0), 8),
                                    Slice{Space::args, Operand::imm(0), Operand::imm(8)}));
            c.done = add(done.finish());
        }
        m.chains.push_back(c);
    }
    Artifact artifact;
    artifact.layout = layout_of(m);
    artifact.bounds.resize(m.programs.size());
    artifact.module = std::move(m);
    return artifact;
}

// A file of such blocks, 64 bytes each, that lead to one another; `random` gives 64 random bits.
inline std::vector<std::uint8_t> random_cells(auto&& random, std::size_t cells) {
    std::vector<std::uint8_t> bytes(cells * 64);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    static constexpr std::uint8_t kOps[] = {kReturnSlice, kReturnSum, kNotFound,    kUserReason, kEmit,    kEmit,
                                            kEmit,        kBroken,    kReturnState, kCarryOn,    kCarryOn, kCarryOn,
                                            kCarryOn,     kCarryOn,   kCarryOn,     kCarryOn};
    static constexpr std::uint8_t kCounts[] = {0, 1, 1, 1, 1, 2, 2, 3, 5, 6, 6, 17};
    for (std::size_t cell = 0; cell < cells; cell++) {
        std::uint8_t* at = bytes.data() + cell * 64;
        at[0] = kOps[random() % std::size(kOps)];
        at[1] = kCounts[random() % std::size(kCounts)];
        for (std::size_t child = 0; child < 6; child++) {
            std::uint8_t* entry = at + 16 + child * 8;
            // Mostly whole cells inside the file; some odd offsets, some at or past the end.
            const auto offset = static_cast<std::uint32_t>(random() % 20 == 0 ? random() % (bytes.size() + 4096)
                                                                              : random() % cells * 64);
            static constexpr std::uint16_t kLengths[] = {64, 64, 64, 64, 128, 512, 4096, 15, 0, 60000};
            const std::uint16_t length = kLengths[random() % 50 == 0 ? random() % 10 : random() % 6];
            std::memcpy(entry, &offset, 4);
            std::memcpy(entry + 4, &length, 2);
        }
    }
    return bytes;
}

}  // namespace chainio::engine::test
