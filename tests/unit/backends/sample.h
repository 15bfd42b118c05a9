// A small artifact that uses every operation that is lowered to C.
#pragma once
#include "bpf-templates/chainio_step.h"
#include "compiler/ir/artifact.h"
#include "compiler/ir/builder.h"

namespace chainio::ir {

inline constexpr std::uint32_t kBad = CIO_MALFORMED;

// A node of count:u16le keys:u64be[count]: the first key that is not less than args[0] names the next read.
inline Program sample_walk() {
    Builder b("sample.walk", ProgramKind::step);
    auto imm = [](std::uint64_t v) { return Operand::imm(v); };
    b.line = {0, 10};
    b.check_range(Space::block, imm(0), imm(2), kBad);
    Operand count = b.load(Space::block, imm(0), 2);
    Operand key = b.arg(0);
    Reg found = b.variable(imm(0), "found");
    b.line = {0, 11};
    b.loop(count, 31, kBad, [&](Operand i) {
        Operand at = b.binary(BinOp::add, b.binary(BinOp::mul, i, imm(8)), imm(2));
        b.line = {0, 12};
        b.check_range(Space::block, at, imm(8), kBad);
        Operand here = b.load(Space::block, at, 8, true);
        b.line = {0, 13};
        b.if_(b.binary(BinOp::ule, key, here), [&] {
            b.assign(found, here);
            b.add(Break{});
        });
    });
    b.line = {0, 14};
    b.if_(b.binary(BinOp::eq, Operand::reg(found), key),
          [&] { b.add(Return{ResultKind::scalar, Operand::reg(found), {}}); });
    b.line = {0, 15};
    b.add(Next{0, 0, Operand::reg(found), imm(512), key});
    return b.finish();
}

inline Program sample_everything() {
    Builder b("sample.everything", ProgramKind::step);
    auto imm = [](std::uint64_t v) { return Operand::imm(v); };
    auto bytes = [](Space s, Operand offset, Operand length) { return Slice{s, offset, length}; };
    b.line = {0, 20};
    b.check_range(Space::block, imm(0), imm(64), kBad);
    auto [v1, l1] = b.varint(VarintKind::sqlite, Space::block, imm(0), imm(60), kBad);
    auto [v2, l2] = b.varint(VarintKind::zigzag, Space::block, l1, imm(60), kBad);
    b.line = {0, 21};
    Operand length = b.binary(BinOp::bit_and, v1, imm(31));
    b.check_range(Space::block, l2, length, kBad);
    Slice run = bytes(Space::block, l2, length);
    Operand order = b.compare(run, bytes(Space::literal, imm(0), imm(5)), 64);
    for (HashAlgo algo : {HashAlgo::crc32c, HashAlgo::xxh64, HashAlgo::fnv1a})
        b.add(EmitInt{b.hash(algo, run, v2, 64), 8, 256});
    b.line = {0, 22};
    b.add(EmitInt{b.find_byte(run, imm(7), 64), 3, 256});
    b.add(EmitBytes{run, 64, 256});
    b.check_range(Space::state, imm(8), length, CIO_OVERFLOW);
    b.add(CopyToState{imm(8), run, 64});
    b.add(StoreState{imm(0), 7, order});
    b.add(CopyToState{imm(11), bytes(Space::state, imm(8), imm(32)), 64});
    Reg digits = b.new_reg();
    b.add(IntOfBytes{digits, bytes(Space::block, imm(3), imm(5)), true, true});
    b.add(EmitInt{Operand::reg(digits), 8, 256});
    Reg decimal = b.new_reg();
    b.add(ParseDecimal{decimal, bytes(Space::block, imm(40), imm(4)), CIO_NOT_FOUND});
    b.line = {0, 23};
    b.loop(imm(1000), 1000, kBad,
           [&](Operand i) { b.if_(b.binary(BinOp::eq, i, Operand::reg(decimal)), [&] { b.add(Break{}); }); });
    b.add(Return{ResultKind::slice, imm(0), run});
    return b.finish();
}

// Every second byte of the block is a page that will be wanted.
inline Program sample_shadow() {
    Builder b("ahead.shadow", ProgramKind::shadow);
    auto imm = [](std::uint64_t v) { return Operand::imm(v); };
    b.line = {0, 30};
    Operand length = b.input(Input::block_length);
    b.loop(b.binary(BinOp::lshr, length, imm(1)), 32768, kBad, [&](Operand i) {
        Operand at = b.binary(BinOp::mul, i, imm(2));
        b.check_range(Space::block, at, imm(1), kBad);
        Operand page = b.load(Space::block, at, 1);
        b.add(Prefetch{PrefetchKind::same, 0, {}, b.binary(BinOp::mul, page, imm(4096)), imm(4096), {}});
        b.add(Prefetch{PrefetchKind::path, 0, {Space::block, at, imm(1)}, imm(0), imm(0), {}});
        b.add(Prefetch{PrefetchKind::chain, 0, {}, imm(0), imm(0), {page}});
    });
    return b.finish();
}

inline Module sample_module() {
    Module module;
    module.app = "sample";
    module.sources = {"sample.chain"};
    module.literals = {'h', 'e', 'l', 'l', 'o'};
    FileClass files;
    files.name = "pages";
    files.pattern = "*.db";
    module.files = {files};
    auto entry = [&](const char* name) {
        Builder b(name, ProgramKind::entry);
        b.line = {0, 5};
        b.add(Next{0, 0, Operand::imm(0), Operand::imm(512), Operand::imm(0)});
        module.programs.push_back(b.finish());
    };
    entry("sample.entry");
    module.programs.push_back(sample_walk());
    module.programs.push_back(sample_everything());
    Chain chain;
    chain.name = "sample";
    chain.params = {{Param::Kind::file, "db"}, {Param::Kind::scalar, "key"}};
    chain.arg_slots = 1;
    chain.result = ResultKind::scalar;
    chain.hops = 8;
    chain.state_bytes = 64;
    chain.entry = 0;
    chain.steps = {{"walk", 1}};
    Chain every = chain;
    every.name = "every";
    every.result = ResultKind::slice;
    every.result_max = 64;
    every.entry = 4;
    every.steps = {{"everything", 2}};
    module.programs.push_back(sample_shadow());
    entry("every.entry");
    Chain ahead;
    ahead.name = "ahead";
    ahead.mode = ChainMode::on_read;
    ahead.shadow = 3;
    module.chains = {chain, every, ahead};
    return module;
}

inline Artifact sample_artifact() {
    Artifact artifact;
    artifact.module = sample_module();
    artifact.layout = layout_of(artifact.module);
    return artifact;
}

}  // namespace chainio::ir
