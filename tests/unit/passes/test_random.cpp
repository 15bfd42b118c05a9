// Random programs do the same before and after the passes: the same step memory, byte for byte.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/ir/cost.h"
#include "compiler/ir/interpret.h"
#include "compiler/passes/lower.h"
#include "tests/support/random_ir.h"

namespace chainio::passes {
namespace {

struct Memory {
    explicit Memory(std::uint32_t total) : words(total / 8 + 1, 0), block(CIO_MAX_BLOCK + CIO_PAD, 0) {}
    std::vector<std::uint64_t> words;
    std::vector<std::uint8_t> block;
    std::span<std::uint8_t> io() { return {reinterpret_cast<std::uint8_t*>(words.data()), words.size() * 8}; }
    cio_io& head() { return *reinterpret_cast<cio_io*>(words.data()); }
};

std::size_t statements(const ir::Body& body) {
    std::size_t n = body.size();
    for (const ir::Stmt& stmt : body) {
        if (auto* branch = std::get_if<ir::If>(&stmt.node)) n += statements(branch->yes) + statements(branch->no);
        if (auto* loop = std::get_if<ir::Loop>(&stmt.node)) n += statements(loop->body);
    }
    return n;
}

TEST(Passes, RandomProgramsDoTheSameAfterwards) {
    constexpr std::uint64_t kModules = 1500, kBlocks = 12;
    std::size_t before = 0, after = 0, finished = 0, too_long = 0;
    Memory first(0), second(0);
    for (std::uint64_t seed = 1; seed <= kModules; seed++) {
        tests::Random random(seed);
        ir::Artifact plain = tests::random_artifact(random, 20 + static_cast<std::uint32_t>(random.below(60)));
        std::string problem = ir::validate(plain.module);
        if (problem.find("instructions") !=
            std::string::npos) {  // a program of many nested loops: over the limit of one run
            too_long++;
            continue;
        }
        ASSERT_EQ(problem, "") << "seed " << seed;
        ir::Artifact optimized = plain;
        constexpr std::uint64_t kSeldom = 10;  // that takes longer than all else
        std::string broken;
        const auto look = [&] {
            if (broken.empty()) broken = ir::validate(optimized.module);
        };
        run_passes(optimized.module, seed % kSeldom == 0 ? look : std::function<void()>());
        ASSERT_EQ(broken, "") << "behind one of the passes, seed " << seed << "\n" << ir::dump(plain.module);
        ASSERT_EQ(ir::validate(optimized.module), "") << "seed " << seed << "\n" << ir::dump(optimized.module);
        // The layout stays that of the artifact, though a pass may have removed the only statement that needed an area.
        tests::Inputs inputs;
        tests::CaseMaker cases(plain, inputs);
        for (std::uint32_t p = 0; p < plain.module.programs.size(); p++) {
            before += statements(plain.module.programs[p].body);
            after += statements(optimized.module.programs[p].body);
            for (std::uint64_t b = 0; b < kBlocks; b++) {
                first.words.assign(plain.layout.total / 8 + 1, 0);
                tests::Random of_case(seed * 1000 + b);
                cases.make(p, of_case, {first.io(), std::span(first.block).first(CIO_MAX_BLOCK)});
                second = first;
                ir::Trace one, two;
                ir::interpret(plain, p, first.head(), first.block.data(), one);
                ir::interpret(optimized, p, second.head(), second.block.data(), two);
                ASSERT_EQ(std::memcmp(first.words.data(), second.words.data(), first.words.size() * 8), 0)
                    << "seed " << seed << " program " << p << " block " << b << "\n"
                    << ir::dump(plain.module) << "\nafter\n"
                    << ir::dump(optimized.module);
                constexpr std::uint64_t kLeast = 4;  // instructions of a statement
                ASSERT_LE(one.statements * kLeast, ir::instruction_bound(plain.module.programs[p])) << "seed " << seed;
                ASSERT_FALSE(one.out_of_range || two.out_of_range) << "seed " << seed;
                ASSERT_LE(two.statements, one.statements + 2) << "the passes made it slower: seed " << seed;
                finished += first.head().outcome == CIO_OK ? 1 : 0;
            }
        }
    }
    EXPECT_LT(after, before);
    EXPECT_LT(too_long, kModules / 10);
    EXPECT_GT(finished, kModules) << "too few programs came to their end";
    RecordProperty("statements_before", static_cast<int>(before));
    RecordProperty("statements_after", static_cast<int>(after));
}

}  // namespace
}  // namespace chainio::passes
