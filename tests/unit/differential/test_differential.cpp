// Every engine gives the same answer, on programs that use every operation.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <expected>
#include <filesystem>
#include <fstream>

#include "compiler/backends/backends.h"
#include "compiler/passes/lower.h"
#include "tests/support/differential.h"
#include "tests/support/random_ir.h"
#include "tests/support/soak.h"
#include "tests/unit/backends/sample.h"

namespace chainio::tests {
namespace {

// After all comparisons: a case that has failed stays one.
void skip_without_kernel(const DifferentialReport& report) {
    if (!report.kernel_skipped.empty())
        GTEST_SKIP() << fmt::format("{} blocks in the kernel: {}", report.blocks(), report.kernel_skipped);
}

void expect_agreement(const std::vector<std::uint8_t>& built, const Inputs& inputs,
                      const DifferentialOptions& options) {
    auto report = run_differential(built, inputs, options);
    ASSERT_TRUE(report) << report.error();
    for (const ProgramReport& p : report->programs) {
        EXPECT_EQ(p.disagreement, "") << p.name;
        EXPECT_LE(p.most_executed, p.bound) << p.name;
        EXPECT_EQ(p.blocks, options.blocks);
    }
    skip_without_kernel(*report);
}

void add_step(ir::Module& module, ir::Program program) {
    module.chains[0].steps.push_back({program.name, static_cast<std::uint16_t>(module.programs.size())});
    module.programs.push_back(std::move(program));
}

std::expected<std::vector<std::uint8_t>, std::string> built_of(ir::Artifact& artifact) {
    artifact.layout = ir::layout_of(artifact.module);
    if (std::string wrong = ir::validate(artifact.module); !wrong.empty()) return std::unexpected(std::move(wrong));
    return backends::build_artifact(artifact, {});
}

TEST(Differential, SampleArtifact) {
    ir::Artifact artifact = ir::sample_artifact();
    auto built = backends::build_artifact(artifact, {});
    ASSERT_TRUE(built) << built.error();
    DifferentialOptions options;
    options.blocks = soak_count(2000, 100000);
    options.seed = soak_seed();
    expect_agreement(*built, {}, options);
}

// Native code computes CRC-32C by the processor's instruction or, on one that has none, by tables.
TEST(Differential, WithoutTheInstructionForCrc32c) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / fmt::format("chainio-crc.{}", getpid());
    const std::string clang = folder / "clang";
    std::filesystem::create_directory(folder);
    std::ofstream(clang) << "#!/bin/sh\nexec $(command -v clang-19 || command -v clang) -DCIO_CRC32C_BY_TABLE \"$@\"\n";
    std::filesystem::permissions(clang, std::filesystem::perms::owner_all);
    ir::Artifact artifact = ir::sample_artifact();
    auto built = backends::build_artifact(artifact, {.clang = clang, .native_arches = {}});
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(built) << built.error();
    DifferentialOptions options;
    options.blocks = 500;
    options.seed = soak_seed();
    expect_agreement(*built, {}, options);
}

// A program for each helper, over as many bytes as there can be, that never ends early: the bound of the cost table has
// to hold where it is tightest.
TEST(Differential, HelpersAtFullLength) {
    using namespace ir;
    auto imm = [](std::uint64_t v) { return Operand::imm(v); };
    Artifact artifact = sample_artifact();
    Module& module = artifact.module;
    Slice all{Space::block, imm(0), imm(65536)}, some{Space::block, imm(1), imm(4095)},
        state{Space::state, imm(0), imm(4095)};
    std::vector<std::function<void(Builder&)>> uses = {
        [&](Builder& b) { b.compare(all, all, 65536); },
        [&](Builder& b) { b.find_byte({Space::block, imm(0), imm(65535)}, imm(9), 65536); },
        [&](Builder& b) { b.hash(HashAlgo::crc32c, all, imm(1), 65536); },
        [&](Builder& b) { b.hash(HashAlgo::xxh64, {Space::block, imm(0), imm(65535)}, imm(1), 65536); },
        [&](Builder& b) { b.hash(HashAlgo::fnv1a, all, imm(1), 65536); },
        [&](Builder& b) { b.add(CopyToState{imm(0), some, 4096}); },
        [&](Builder& b) { b.add(CopyToState{imm(1), state, 4096}); },
        [&](Builder& b) { b.add(EmitBytes{{Space::block, imm(0), imm(65535)}, 65536, 65536}); },
    };
    Chain& chain = module.chains[0];
    chain.state_bytes = 4096;
    for (std::size_t i = 0; i < uses.size(); i++) {
        Builder b(fmt::format("full.{}", i), ProgramKind::step);
        b.check_range(Space::block, imm(0), imm(65536), CIO_SHORT_READ);
        uses[i](b);
        b.add(End{});
        add_step(artifact.module, b.finish());
    }
    const auto built = built_of(artifact);
    ASSERT_TRUE(built) << built.error();
    Inputs inputs;
    inputs.pages.push_back({std::vector<std::uint8_t>(65536, 0), 0});
    for (std::size_t i = 0; i < uses.size(); i++) {
        DifferentialOptions options;
        options.blocks = 30;
        options.only = fmt::format("full.{}", i);
        auto report = run_differential(*built, inputs, options);
        ASSERT_TRUE(report) << report.error();
        EXPECT_EQ(report->programs[0].disagreement, "");
        EXPECT_GT(report->programs[0].most_executed * 2, report->programs[0].bound)
            << options.only << " is bounded too loosely, or did not get to its end";
        skip_without_kernel(*report);
    }
}

// The same of operations whose cost has no length in it: in a loop, so that each counts many times.
TEST(Differential, OperationsAtTheirDearest) {
    using namespace ir;
    auto imm = [](std::uint64_t v) { return Operand::imm(v); };
    constexpr std::uint64_t kRounds = 100;
    constexpr UnOp kLastUnary = UnOp::bswap64;
    ir::Artifact artifact = sample_artifact();
    Module& module = artifact.module;
    std::vector<std::function<void(Builder&)>> uses;
    const auto zero = [=](Builder& b) { return b.binary(BinOp::bit_and, b.input(Input::block_tag), imm(0)); };
    const auto use = [&](auto body) { uses.push_back(body); };
    for (const bool is_imm : {true, false}) {
        const auto at = [=](Builder& b, std::uint64_t place) {
            return is_imm ? imm(place) : b.binary(BinOp::add, zero(b), imm(place));
        };
        for (const Space space : {Space::block, Space::state}) {
            for (const VarintKind kind : {VarintKind::leb128, VarintKind::zigzag, VarintKind::sqlite})
                use([=](Builder& b) { b.varint(kind, space, at(b, 0), at(b, 10), CIO_MALFORMED); });
            for (const bool big : {true, false})
                for (const bool is_signed : {true, false}) {
                    use([=](Builder& b) {
                        const Slice bytes{space, at(b, 0), at(b, 7)};
                        b.check_range(space, bytes.offset, bytes.length, CIO_MALFORMED);
                        b.add(IntOfBytes{b.new_reg(), bytes, big, is_signed});
                    });
                    for (std::uint8_t width = 1; width <= 8; width++)
                        use([=](Builder& b) {
                            const Operand place = at(b, 1);
                            b.check_range(space, place, imm(width), CIO_MALFORMED);
                            b.load(space, place, width, big, is_signed);
                        });
                }
            use([=](Builder& b) {
                const Slice digits{space, at(b, 32), at(b, 20)};
                b.check_range(space, digits.offset, digits.length, CIO_MALFORMED);
                b.add(ParseDecimal{b.new_reg(), digits, CIO_MALFORMED});
            });
        }
        for (std::uint8_t width = 1; width <= 8; width++) {
            use([=](Builder& b) { b.add(StoreState{imm(100), width, at(b, 3)}); });
            use([=](Builder& b) { b.add(EmitInt{at(b, 3), width, 512}); });
        }
        for (auto op = BinOp::add; op <= BinOp::umax; op = static_cast<BinOp>(static_cast<int>(op) + 1))
            use([=](Builder& b) { b.binary(op, b.input(Input::block_length), at(b, 3)); });
        for (auto op = UnOp{}; op <= kLastUnary; op = static_cast<UnOp>(static_cast<int>(op) + 1))
            use([=](Builder& b) { b.unary(op, at(b, 3)); });
        use([=](Builder& b) { b.select(b.input(Input::block_length), at(b, 3), at(b, 4)); });
        use([=](Builder& b) {
            b.if_(at(b, 3), [&] { b.input(Input::block_offset); }, [&] { b.input(Input::out_length); });
        });
    }
    Chain& chain = module.chains[0];
    chain.state_bytes = 4096;
    std::vector<std::uint8_t> page(4096, 0xff);
    page[9] = 1;
    std::ranges::copy(std::string_view("18446744073709551615"), page.begin() + 32);
    chain.initial_state = page;
    for (std::size_t i = 0; i < uses.size(); i++) {
        Builder b(fmt::format("dear.{}", i), ProgramKind::step);
        b.loop(imm(kRounds), kRounds, CIO_MALFORMED, [&](Operand) { uses[i](b); });
        b.add(End{});
        add_step(artifact.module, b.finish());
    }
    const auto built = built_of(artifact);
    ASSERT_TRUE(built) << built.error();
    Inputs inputs;
    inputs.pages.push_back({page, 0});
    DifferentialOptions options;
    options.blocks = 10;
    const auto report = run_differential(*built, inputs, options);
    ASSERT_TRUE(report) << report.error();
    for (const ProgramReport& p : report->programs) {
        EXPECT_EQ(p.disagreement, "") << p.name;
        if (p.name.starts_with("dear.")) EXPECT_GT(p.most_executed, kRounds * 5) << p.name << " did not get to its end";
    }
    skip_without_kernel(*report);
}

TEST(Differential, RandomPrograms) {
    std::uint64_t seed = soak_seed();
    for (std::uint64_t n = 0; n < soak_count(6, 300) && !HasFailure(); n++) {
        SCOPED_TRACE(fmt::format("CHAINIO_SEED={} module {}", seed, n));
        Random random(seed + n * 0x9e3779b97f4a7c15u);
        ir::Artifact artifact = random_artifact(random, n % 3 == 0 ? 8 : 60);
        if (n % 2 == 1) {  // as chainc builds programs; the others are what no pass would leave
            passes::run_passes(artifact.module);
            artifact.layout = ir::layout_of(artifact.module);
        }
        ASSERT_EQ(ir::validate(artifact.module), "");
        auto built = backends::build_artifact(artifact, {});
        ASSERT_TRUE(built) << built.error();
        DifferentialOptions options;
        options.blocks = soak_count(500, 5000);
        options.seed = seed + n;
        expect_agreement(*built, {}, options);
    }
}

}  // namespace
}  // namespace chainio::tests
