// The artifact: what is in it, that others can read it, that it is reproducible, and what is said when it cannot be made.
#include <bpf/libbpf.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "compiler/backends/backends.h"
#include "compiler/backends/elf_file.h"
#include "tests/unit/backends/sample.h"

namespace chainio::backends {
namespace {

std::vector<std::uint8_t> build(const BuildOptions& options = {}) {
    ir::Artifact artifact = ir::sample_artifact();
    EXPECT_EQ(ir::validate(artifact.module), "");
    auto built = build_artifact(artifact, options);
    EXPECT_TRUE(built) << (built ? "" : built.error());
    return built.value_or(std::vector<std::uint8_t>{});
}

TEST(Build, WritesEverySection) {
    std::vector<std::uint8_t> bytes = build({"", {"x86_64", "aarch64"}, 2});
    auto file = ElfFile::open(bytes);
    ASSERT_TRUE(file);
    auto spec = find_section(*file, ".chainio.spec");
    auto read = ir::deserialize(spec);
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(read->module.app, "sample");
    ASSERT_EQ(read->bounds.size(), 5u);
    EXPECT_GT(read->bounds[2].instructions, 1000u);
    EXPECT_GE(read->bounds[2].stack, 64u);
    EXPECT_FALSE(find_section(*file, ".chainio.native.x86_64").empty());
    EXPECT_FALSE(find_section(*file, ".chainio.native.aarch64").empty());
    EXPECT_TRUE(find_section(*file, ".debug_info").empty());
    EXPECT_FALSE(find_section(*file, ".BTF.ext").empty());
}

TEST(Build, SameInputSameBytes) {
    std::vector<std::uint8_t> once = build();
    std::filesystem::path here = std::filesystem::current_path();
    std::filesystem::current_path("/");
    std::vector<std::uint8_t> again = build();
    std::filesystem::current_path(here);
    EXPECT_EQ(once, again);
}

TEST(Build, LibbpfOpensIt) {
    std::vector<std::uint8_t> bytes = build();
    bpf_object* object = bpf_object__open_mem(bytes.data(), bytes.size(), nullptr);
    ASSERT_NE(object, nullptr);
    EXPECT_NE(bpf_object__find_program_by_name(object, "cio_run_2"), nullptr);
    EXPECT_NE(bpf_object__find_map_by_name(object, "cio_block_map"), nullptr);
    bpf_object__close(object);
}

TEST(Build, SaysWhatIsMissing) {
    ir::Artifact artifact = ir::sample_artifact();
    auto no_clang = build_artifact(artifact, {"/nowhere/clang", {}, 2});
    ASSERT_FALSE(no_clang);
    EXPECT_EQ(no_clang.error(), "/nowhere/clang is not a program; name a clang of version 18 or newer");
    auto no_arch = build_artifact(artifact, {"", {"vax"}, 2});
    ASSERT_FALSE(no_arch);
    EXPECT_EQ(no_arch.error(), "native code for `vax` is not supported; x86_64 and aarch64 are");
}

}  // namespace
}  // namespace chainio::backends
