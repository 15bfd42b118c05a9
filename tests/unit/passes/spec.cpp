#include "tests/unit/passes/spec.h"

#include <cstring>

#include "compiler/diag/diag.h"
#include "compiler/ir/names.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "compiler/syntax/parse.h"

namespace chainio::passes::test {
namespace {

ir::Artifact laid_out(ir::Module module, const ir::IoLayout& layout) {
    ir::Artifact a;
    a.bounds.resize(module.programs.size());
    a.module = std::move(module);
    a.layout = layout;
    return a;
}

struct Memory {
    explicit Memory(std::uint32_t total) : words(total / 8 + 1, 0) {}
    std::vector<std::uint64_t> words;
    std::uint8_t* base() { return reinterpret_cast<std::uint8_t*>(words.data()); }
    cio_io& io() { return *reinterpret_cast<cio_io*>(words.data()); }
};

}  // namespace

ir::Module lowered(const std::string& spec) {
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    FileId id = sources.add("test.chain", spec);
    auto tree = syntax::parse_chain(id, sources, diagnostics);
    syntax::print_chain(*tree);
    auto none = [](const std::string&, FileId) { return sema::Loaded{}; };
    auto checked = sema::check(*tree, "test.chain", none, {}, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diag::render_text(diagnostics, sources, false) << spec;
    return checked ? lower(*checked) : ir::Module{};
}

Spec::Spec(const std::string& text) {
    ir::Module module = lowered(text);
    EXPECT_EQ(ir::validate(module), "") << ir::dump(module);
    ir::IoLayout layout = ir::layout_of(module);
    ir::Module better = module;
    run_passes(better);
    EXPECT_EQ(ir::validate(better), "") << ir::dump(better);
    plain_ = laid_out(std::move(module), layout);
    optimized_ = laid_out(std::move(better), layout);
}

std::uint32_t Spec::program_index(const std::string& name) const {
    for (std::uint32_t i = 0; i < plain_.module.programs.size(); i++)
        if (plain_.module.programs[i].name == name) return i;
    ADD_FAILURE() << "no program " << name;
    return 0;
}

Ran Spec::run(const std::string& program, const Block& block,
              const std::function<void(cio_io&, std::uint8_t*)>& prepare) const {
    if (plain_.module.programs.empty()) return {};  // the spec has an error, which is reported already
    const ir::IoLayout& layout = plain_.layout;
    Memory memory(layout.total);
    memory.io().block_length = static_cast<std::uint32_t>(block.size());
    const auto& initial = chain().initial_state;
    if (!initial.empty()) std::memcpy(memory.base() + layout.state_offset, initial.data(), initial.size());
    if (prepare) prepare(memory.io(), memory.base());
    Memory second = memory;
    ir::Trace one, two;
    std::uint32_t index = program_index(program);
    ir::interpret(plain_, index, memory.io(), block.data(), one);
    ir::interpret(optimized_, index, second.io(), block.data(), two);
    EXPECT_EQ(std::memcmp(memory.base(), second.base(), layout.total), 0) << "the passes changed what it does\n"
                                                                          << ir::dump(plain_.module);
    EXPECT_FALSE(one.out_of_range || two.out_of_range);
    Ran ran;
    ran.io = memory.io();
    auto area = [&](std::uint32_t offset, std::uint32_t size) {
        return Block(memory.base() + offset, memory.base() + offset + size);
    };
    ran.out = area(layout.out_offset, ran.io.out_length);
    ran.state = area(layout.state_offset, layout.state_size);
    ran.names = ir::outcome_name(plain_.module, ran.io.outcome);
    ran.prefetches.resize(ran.io.prefetch_count);
    if (!ran.prefetches.empty())
        std::memcpy(ran.prefetches.data(), memory.base() + layout.prefetch_offset,
                    ran.prefetches.size() * sizeof(cio_prefetch));
    if (ran.io.finished != 0 && ran.io.result_kind == CIO_RESULT_SLICE) {
        const std::uint8_t* spaces[] = {block.data(), memory.base() + layout.arg_bytes_offset,
                                        memory.base() + layout.state_offset, plain_.module.literals.data()};
        const std::uint8_t* from = spaces[ran.io.slice_space] + ran.io.slice_offset;
        ran.slice.assign(from, from + ran.io.slice_length);
    }
    return ran;
}

Ran Spec::run_on(const Ran& before, const std::string& program, const Block& block) const {
    return run(program, block, [&](cio_io& io, std::uint8_t* base) {
        std::memcpy(io.args, before.io.args, sizeof(io.args));
        io.out_length = before.io.out_length;
        if (!before.out.empty()) std::memcpy(base + plain_.layout.out_offset, before.out.data(), before.out.size());
        if (!before.state.empty())
            std::memcpy(base + plain_.layout.state_offset, before.state.data(), before.state.size());
    });
}

std::uint64_t Spec::scalar(const std::string& program, const Block& block,
                           const std::function<void(cio_io&, std::uint8_t*)>& prepare) const {
    Ran ran = run(program, block, prepare);
    EXPECT_EQ(ran.names, "ok");
    EXPECT_EQ(ran.io.result_kind, CIO_RESULT_SCALAR);
    return ran.io.result;
}

}  // namespace chainio::passes::test
