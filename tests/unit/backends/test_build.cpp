// The artifact: what is in it, that others can read it, that it is reproducible, and what is said when it cannot be
// made.
#include <bpf/libbpf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "compiler/backends/backends.h"
#include "compiler/backends/clang.h"
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

// The kernel engine runs the very instructions that the other engines were compared with.
TEST(Build, LinksTheKernelEnginesProgramFromTheSameSteps) {
    std::vector<std::uint8_t> bytes = build();
    auto file = ElfFile::open(bytes);
    ASSERT_TRUE(file);
    auto linked = ElfFile::open(find_section(*file, ".chainio.kernel"));
    ASSERT_TRUE(linked);
    const auto steps = find_section(*file, ".text"), there = find_section(*linked, ".text");
    ASSERT_FALSE(steps.empty());
    ASSERT_LT(steps.size(), there.size());
    EXPECT_TRUE(std::ranges::equal(steps, there.first(steps.size())));
    EXPECT_FALSE(find_section(*linked, "struct_ops.s/cio_loop_step").empty());
    EXPECT_FALSE(find_section(*linked, ".BTF.ext").empty());
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

TEST(Build, BpftoolMakesASkeletonOfIt) {
    if (std::system("command -v bpftool >/dev/null 2>&1") != 0) GTEST_SKIP() << "bpftool is not installed";
    auto dir = TempDir::make();
    ASSERT_TRUE(dir);
    std::vector<std::uint8_t> bytes = build();
    std::ofstream(dir->file("app.bpf.o"), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::string command = "bpftool gen skeleton " + dir->file("app.bpf.o") + " name app > " + dir->file("app.h") +
                          " 2>" + dir->file("said");
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream in(dir->file("app.h"));
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    EXPECT_NE(text.find("struct bpf_map *cio_io_map;"), std::string::npos);
    EXPECT_NE(text.find("struct bpf_program *cio_run_1;"), std::string::npos);
}

TEST(Build, LeavesNoFilesBehind) {
    auto dir = TempDir::make();
    ASSERT_TRUE(dir);
    std::string before = std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp";
    setenv("TMPDIR", dir->path().c_str(), 1);
    build();
    ir::Artifact artifact = ir::sample_artifact();
    EXPECT_FALSE(build_artifact(artifact, {"/bin/false", {}, 2}));
    setenv("TMPDIR", before.c_str(), 1);
    EXPECT_TRUE(std::filesystem::is_empty(dir->path()));
}

TEST(Build, SaysWhatClangSaid) {
    ir::Artifact artifact = ir::sample_artifact();
    auto failed = build_artifact(artifact, {"/bin/false", {}, 2});
    ASSERT_FALSE(failed);
    EXPECT_TRUE(failed.error().starts_with("/bin/false failed with status 1 on the BPF programs")) << failed.error();
    EXPECT_NE(failed.error().find("hint: "), std::string::npos);
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
