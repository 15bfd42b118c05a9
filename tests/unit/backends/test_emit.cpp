// The texts: C, graph, configuration.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "compiler/backends/backends.h"
#include "compiler/backends/placement.h"
#include "tests/unit/backends/sample.h"

namespace chainio::backends {
namespace {

TEST(EmitC, NamesLinesOfTheCanonicalForm) {
    std::string text = emit_c(ir::sample_artifact());
    EXPECT_NE(text.find("#line 12 \"sample.chain\"\n CIO_CHECK(cio_inside(r5, 8ull, CIO_BLOCK_LENGTH), 1); r6 = "
                        "cio_be(cio_at_block(r5), 8);\n"),
              std::string::npos)
        << text.substr(text.find("cio_p1_l1") == text.npos ? 0 : text.find("cio_p1_l1"));
}

TEST(EmitC, TakesOnlyTheHelpersThatAreUsed) {
    ir::Artifact artifact = ir::sample_artifact();
    EXPECT_NE(emit_c(artifact).find("cio_crc32c_block("), std::string::npos);
    artifact.module.programs.resize(2);
    EXPECT_EQ(emit_c(artifact).find("crc32c"), std::string::npos);
}

// What crosses into a loop's function or is written twice is a slot, and bodies side by side share theirs.
TEST(Placement, SlotsAndLocals) {
    ir::Builder b("p", ir::ProgramKind::step);
    ir::Operand outer = b.arg(0), local = b.arg(1);
    for (int i = 0; i < 2; i++) {
        b.loop(local, 10, CIO_MALFORMED, [&](ir::Operand n) {
            ir::Reg mine = b.variable(n);
            b.assign(mine, outer);
        });
    }
    ir::Program program = b.finish();
    Placement placement = place(program);
    EXPECT_TRUE(placement.regs[outer.value].is_slot);
    EXPECT_FALSE(placement.regs[local.value].is_slot);
    EXPECT_EQ(placement.slots, 2u);
    EXPECT_EQ(placement.functions.size(), 2u);
}

TEST(EmitDot, ShowsReadsAndPrefetches) {
    std::string text = emit_dot(ir::sample_module());
    EXPECT_NE(text.find("digraph \"sample\""), std::string::npos);
    EXPECT_NE(text.find("chain0_step0 -> chain0_step0 [label=\"db\"];"), std::string::npos) << text;
    EXPECT_NE(text.find("chain2 -> chain0 [label=\"prefetch via\", style=dashed];"), std::string::npos) << text;
}

TEST(EmitConfig, IsJsonOfTheWholeSpecification) {
    ir::Artifact artifact = ir::sample_artifact();
    artifact.bounds.assign(artifact.module.programs.size(), {123, 64});
    auto json = nlohmann::json::parse(emit_config(artifact));
    EXPECT_EQ(json["app"], "sample");
    EXPECT_EQ(json["chains"][0]["steps"][0]["program"], "sample.walk");
    EXPECT_EQ(json["chains"][0]["params"][0]["class"], "pages");
    EXPECT_EQ(json["chains"][2]["mode"], "read");
    EXPECT_EQ(json["programs"][1]["instructions"], 123);
    EXPECT_EQ(json["layout"]["total"], artifact.layout.total);
}

}  // namespace
}  // namespace chainio::backends
