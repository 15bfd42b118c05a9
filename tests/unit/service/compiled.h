// Specs in tests: as the compiler lowers them, and with their native code.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "compiler/backends/backends.h"
#include "compiler/diag/diag.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "compiler/syntax/parse.h"
#include "runtime/spec/loaded.h"

namespace chainio::service {

inline ir::Artifact lowered(const char* spec) {
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    FileId id = sources.add("test.chain", spec);
    auto tree = syntax::parse_chain(id, sources, diagnostics);
    syntax::print_chain(*tree);
    auto none = [](const std::string&, FileId) { return sema::Loaded{}; };
    auto checked = sema::check(*tree, "test.chain", none, {}, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diag::render_text(diagnostics, sources, false);
    ir::Artifact artifact;
    artifact.module = passes::lower(*checked);
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
