// Every engine gives the same answer, on programs that use every operation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/backends/backends.h"
#include "tests/support/differential.h"
#include "tests/support/random_ir.h"
#include "tests/support/soak.h"
#include "tests/unit/backends/sample.h"

namespace chainio::tests {
namespace {

void expect_agreement(const std::vector<std::uint8_t>& built, const Inputs& inputs, const DifferentialOptions& options) {
    auto report = run_differential(built, inputs, options);
    ASSERT_TRUE(report) << report.error();
    if (!report->kernel_skipped.empty()) fmt::print("skipped: {} blocks in the kernel: {}\n", report->blocks(), report->kernel_skipped);
    for (const ProgramReport& p : report->programs) {
        EXPECT_EQ(p.disagreement, "") << p.name;
        EXPECT_LE(p.most_executed, p.bound) << p.name;
        EXPECT_EQ(p.blocks, options.blocks);
    }
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

TEST(Differential, RandomPrograms) {
    std::uint64_t seed = soak_seed();
    for (std::uint64_t n = 0; n < soak_count(6, 300) && !HasFailure(); n++) {
        SCOPED_TRACE(fmt::format("CHAINIO_SEED={} module {}", seed, n));
        Random random(seed + n * 0x9e3779b97f4a7c15u);
        ir::Artifact artifact = random_artifact(random, n % 3 == 0 ? 8 : 60);
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
