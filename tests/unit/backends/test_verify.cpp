// --verify: what the kernel says about every program, where a complaint comes from, and what is said without the privilege.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "compiler/backends/backends.h"
#include "tests/unit/backends/sample.h"

namespace chainio::backends {
namespace {

std::vector<std::uint8_t> build(ir::Artifact& artifact) {
    EXPECT_EQ(ir::validate(artifact.module), "");
    auto built = build_artifact(artifact, {});
    EXPECT_TRUE(built) << (built ? "" : built.error());
    return built.value_or(std::vector<std::uint8_t>{});
}

std::size_t open_files() {
    auto files = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// Loops nested so deeply that the innermost cannot be a function, with more rounds than the verifier remembers branches of.
ir::Artifact too_much() {
    ir::Artifact artifact = ir::sample_artifact();
    ir::Builder b("sample.walk", ir::ProgramKind::step);
    auto imm = [](std::uint64_t v) { return ir::Operand::imm(v); };
    ir::Reg sum = b.variable(imm(0));
    std::uint32_t depth = 0;
    std::function<void(ir::Operand)> nest = [&](ir::Operand i) {
        b.line = {0, 100 + depth};
        b.assign(sum, b.binary(ir::BinOp::add, ir::Operand::reg(sum), i));
        ir::Operand count = b.arg(0);
        if (depth++ < 5) b.loop(count, depth < 5 ? 1 : 20000, CIO_MALFORMED, nest);
    };
    nest(imm(1));
    artifact.module.programs[1] = b.finish();
    return artifact;
}

TEST(Verify, LoadsEveryProgramWithinItsBounds) {
    ir::Artifact artifact = ir::sample_artifact();
    std::vector<std::uint8_t> bytes = build(artifact);
    std::size_t files = open_files();
    VerifyResult result = verify(bytes);
    EXPECT_EQ(open_files(), files);
    if (!result.permitted) GTEST_SKIP() << result.why;
    EXPECT_TRUE(result.failed.empty()) << result.failed[0].program << ": " << result.failed[0].log;
    ASSERT_EQ(result.loaded.size(), artifact.module.programs.size());
    for (std::size_t i = 0; i < result.loaded.size(); i++) {
        EXPECT_EQ(result.loaded[i].program, artifact.module.programs[i].name);
        EXPECT_GT(result.loaded[i].instructions_processed, 20u);
        EXPECT_LT(result.loaded[i].instructions_processed, 250'000u);
        EXPECT_GT(result.loaded[i].stack, 0u);
        EXPECT_LE(result.loaded[i].stack, artifact.bounds[i].stack);
    }
}

TEST(Verify, NamesTheLineOfAComplaint) {
    ir::Artifact artifact = too_much();
    std::vector<std::uint8_t> bytes = build(artifact);
    VerifyResult result = verify(bytes);
    if (!result.permitted) GTEST_SKIP() << result.why;
    ASSERT_EQ(result.failed.size(), 1u);
    EXPECT_EQ(result.loaded.size(), artifact.module.programs.size() - 1);
    const VerifyFailure& failure = result.failed[0];
    EXPECT_EQ(failure.program, "sample.walk");
    EXPECT_EQ(failure.file, "sample.chain");
    EXPECT_GE(failure.line, 103u);
    EXPECT_LE(failure.line, 105u);
    EXPECT_NE(failure.message.find("too complex"), std::string::npos) << failure.message;
    EXPECT_FALSE(failure.log.empty());
}

TEST(Verify, RefusesWhatIsNoArtifact) {
    VerifyResult result = verify({1, 2, 3});
    if (!result.permitted) GTEST_SKIP() << result.why;
    ASSERT_EQ(result.failed.size(), 1u);
    EXPECT_EQ(result.failed[0].message, "not an artifact: not a 64-bit ELF file");
}

// In a child that has given up its capabilities.
TEST(Verify, SaysWhichPrivilegeIsMissing) {
    ir::Artifact artifact = ir::sample_artifact();
    std::vector<std::uint8_t> bytes = build(artifact);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct none[2]{};
        if (syscall(SYS_capset, &head, none) != 0) _exit(1);
        VerifyResult result = verify(bytes);
        bool as_it_should = !result.permitted && result.loaded.empty() && write(ends[1], result.why.data(), result.why.size()) > 0;
        _exit(as_it_should ? 0 : 1);
    }
    close(ends[1]);
    char said[512];
    ssize_t length = read(ends[0], said, sizeof said);
    close(ends[0]);
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    ASSERT_GT(length, 0);
    EXPECT_EQ(std::string(said, static_cast<std::size_t>(length)),
              "loading BPF programs needs CAP_BPF and CAP_PERFMON, which this process does not have; run it as root, or once: "
              "setcap cap_bpf,cap_perfmon+ep on the program");
}

}  // namespace
}  // namespace chainio::backends
