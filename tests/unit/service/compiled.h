// Specs in tests: as the compiler lowers them, and with their native code.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "compiler/backends/backends.h"
#include "compiler/passes/lower.h"
#include "runtime/spec/loaded.h"
#include "tests/unit/passes/spec.h"

namespace chainio::service {

inline ir::Artifact lowered(const char* spec) {
    ir::Artifact artifact;
    artifact.module = passes::test::lowered(spec);
    passes::run_passes(artifact.module);
    artifact.layout = ir::layout_of(artifact.module);
    EXPECT_EQ(ir::validate(artifact.module), "");
    return artifact;
}

inline std::shared_ptr<const spec::Loaded> compiled(const char* spec) {
    ir::Artifact artifact = lowered(spec);
    auto built = backends::build_artifact(artifact, {});
    EXPECT_TRUE(built) << built.error();
    auto loaded = spec::Loaded::from_bytes(*built, "test");
    EXPECT_TRUE(loaded) << loaded.error().message;
    EXPECT_TRUE((*loaded)->native()) << (*loaded)->interpreter_reason();
    return *loaded;
}

}  // namespace chainio::service
