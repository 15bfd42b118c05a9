// --verify: what the kernel says about every program, where a complaint comes from, and what is said without the
// privilege.
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

// Loops nested so deeply that the innermost cannot be a function, with more rounds than the verifier remembers branches
// of.
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
    EXPECT_TRUE(failure.message.starts_with("The sequence of ")) << failure.message;
    EXPECT_FALSE(failure.log.empty());
}

TEST(Verify, AComplaintIsAlwaysInWords) {
    EXPECT_EQ(
        verifier_complaint("5: (71) r0 = *(u8 *)(r1 +0)\nR1 invalid mem access 'scalar'\nverification time 9 usec\n"
                           "stack depth 8+0\nprocessed 6 insns (limit 1000000)\n"),
        "R1 invalid mem access 'scalar'");
    EXPECT_EQ(verifier_complaint("; return n.a @ app.chain:7\n17: (85) call pc+3\nprocessed 18 insns\n"),
              "it stopped at instruction `17: (85) call pc+3`");
    EXPECT_EQ(verifier_complaint("processed 0 insns\n\n"), "");
}

// Six loops in one another, with helpers of two frames in the innermost and values of every level alive there: the
// deepest that the kernel's eight frames and 512 bytes of stack have to hold.
TEST(Verify, LoadsTheDeepestNest) {
    ir::Artifact artifact = ir::sample_artifact();
    ir::Builder b("sample.walk", ir::ProgramKind::step);
    auto imm = [](std::uint64_t v) { return ir::Operand::imm(v); };
    b.check_range(ir::Space::block, imm(0), imm(2048), CIO_SHORT_READ);
    ir::Reg sum = b.variable(imm(0));
    std::vector<ir::Operand> alive;
    std::uint32_t depth = 0;
    std::function<void(ir::Operand)> nest = [&](ir::Operand i) {
        std::size_t outer = alive.size();
        for (std::uint64_t k = 0; k < 12; k++)
            alive.push_back(b.binary(ir::BinOp::mul, i, b.load(ir::Space::block, imm(100 * depth + 8 * k), 8)));
        if (depth++ < 6) {
            b.loop(b.arg(0), 3, CIO_MALFORMED, nest);
        } else {
            ir::Slice run{ir::Space::block, imm(0), imm(1000)};
            alive.push_back(b.compare(run, {ir::Space::block, imm(1000), imm(1000)}, 1000));
            alive.push_back(b.hash(ir::HashAlgo::xxh64, run, i, 1000));
        }
        for (ir::Operand value : alive) b.assign(sum, b.binary(ir::BinOp::bit_xor, ir::Operand::reg(sum), value));
        alive.resize(outer);
    };
    nest(imm(1));
    b.add(ir::Return{ir::ResultKind::scalar, ir::Operand::reg(sum), {}});
    artifact.module.programs[1] = b.finish();
    VerifyResult result = verify(build(artifact));
    if (!result.permitted) GTEST_SKIP() << result.why;
    ASSERT_TRUE(result.failed.empty()) << result.failed[0].message << "\n"
                                       << result.failed[0].log.substr(
                                              result.failed[0].log.size() -
                                              std::min<std::size_t>(result.failed[0].log.size(), 2000));
    EXPECT_LE(result.loaded[1].stack, artifact.bounds[1].stack);
    EXPECT_LE(artifact.bounds[1].stack, 512u);
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
        bool as_it_should =
            !result.permitted && result.loaded.empty() && write(ends[1], result.why.data(), result.why.size()) > 0;
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
              "loading BPF programs needs CAP_BPF and CAP_PERFMON, which this process does not have");
}

}  // namespace
}  // namespace chainio::backends
