// Modules for the tests of the IR, and a place to run their programs in.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/interpret.h"

namespace chainio::ir::test {

// One call chain: a file class, a file parameter, an integer and a bytes parameter (args 0, and 1 and 2), 64 bytes of
// state, a step.
inline Module module_with_step(Program step) {
    Module m;
    m.app = "test";
    m.sources = {"test.chain"};
    m.reasons = {"custom"};
    m.literals = {'l', 'i', 't', 'e', 'r', 'a', 'l'};
    FileClass file;
    file.name = "pages";
    file.pattern = "*.db";
    m.files.push_back(file);
    Builder entry("c.entry", ProgramKind::entry);
    entry.add(Next{0, 0, Operand::imm(0), Operand::imm(4096), Operand::imm(0)});
    m.programs.push_back(entry.finish());
    step.name = "c.walk";
    m.programs.push_back(std::move(step));
    Chain c;
    c.name = "c";
    c.params = {{Param::Kind::file, "db", 0, 0, 64, false, 0},
                {Param::Kind::scalar, "key", 0, 0, 64, false, 0},
                {Param::Kind::bytes, "name", 1, 0, 64, false, 32}};
    c.arg_slots = 3;
    c.result_max = 64;
    c.hops = 8;
    c.state_bytes = 64;
    c.entry = 0;
    c.steps = {{"walk", 1}};
    m.chains.push_back(c);
    return m;
}

inline Artifact artifact_of(Module m) {
    Artifact a;
    a.layout = layout_of(m);
    a.bounds.resize(m.programs.size());
    a.module = std::move(m);
    return a;
}

struct Ran {
    cio_io io;
    std::vector<std::uint8_t> state, out;
    Trace trace;
};

// Runs program 1 of the module on the block.
inline Ran run(const Artifact& a, const std::vector<std::uint8_t>& block,
               const std::function<void(cio_io&, std::uint8_t*)>& prepare = {}) {
    std::vector<std::uint64_t> memory(a.layout.total / 8 + 1, 0);
    auto* base = reinterpret_cast<std::uint8_t*>(memory.data());
    auto& io = *reinterpret_cast<cio_io*>(base);
    io.block_length = static_cast<std::uint32_t>(block.size());
    if (prepare) prepare(io, base);
    Ran ran{};
    interpret(a, 1, io, block.data(), ran.trace);
    ran.io = io;
    ran.state.assign(base + a.layout.state_offset, base + a.layout.state_offset + a.layout.state_size);
    ran.out.assign(base + a.layout.out_offset, base + a.layout.out_offset + io.out_length);
    return ran;
}

inline Program step(const std::function<void(Builder&)>& build) {
    Builder b("c.walk", ProgramKind::step);
    build(b);
    return b.finish();
}
// Validates and runs a step built by `build`.
inline Ran run_step(const std::vector<std::uint8_t>& block, const std::function<void(Builder&)>& build,
                    const std::function<void(Module&)>& change = {}) {
    Module m = module_with_step(step(build));
    if (change) change(m);
    EXPECT_EQ(validate(m), "");
    return run(artifact_of(std::move(m)), block);
}

inline std::vector<std::uint8_t> bytes(std::string_view text) { return {text.begin(), text.end()}; }
inline Operand imm(std::uint64_t v) { return Operand::imm(v); }
inline Slice block_slice(std::uint64_t offset, std::uint64_t length) {
    return {Space::block, imm(offset), imm(length)};
}

}  // namespace chainio::ir::test
