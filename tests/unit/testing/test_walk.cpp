// A file whose header cannot be had ends the chain before its first step.
#include <gtest/gtest.h>

#include "tools/chainio/testing/walk.h"

namespace chainio::testing {
namespace {

class NoSteps : public Steps {
  public:
    std::string name() const override { return "none"; }
    std::expected<void, std::string> run(std::uint32_t, cio_io&, const std::uint8_t*) override {
        return std::unexpected(std::string("a step was run"));
    }
};

std::uint32_t outcome_with(const FileView& file) {
    ir::Artifact artifact;
    ir::FileClass files;
    files.header_program = 0;
    files.header_bytes = 8;
    artifact.module.files.push_back(files);
    ir::Chain chain;
    chain.params.push_back({.kind = ir::Param::Kind::file, .name = "db"});
    artifact.module.chains.push_back(chain);
    NoSteps steps;
    const auto outcome = walk(artifact, steps, {.chain = 0, .files = {file}, .args = {}});
    EXPECT_TRUE(outcome && outcome->reads.empty());
    return outcome ? outcome->outcome : 0;
}

TEST(Walk, TellsAFileThatCannotBeReadFromOneThatIsTooShort) {
    constexpr int kNone = -1;
    EXPECT_EQ(outcome_with(FileView(kNone, 64)), static_cast<std::uint32_t>(CIO_IO_ERROR));
    EXPECT_EQ(outcome_with(FileView(Bytes(7))), static_cast<std::uint32_t>(CIO_SHORT_READ));
    EXPECT_EQ(outcome_with(FileView(Bytes(8))), static_cast<std::uint32_t>(CIO_MALFORMED)) << "no program says so";
}

}  // namespace
}  // namespace chainio::testing
