// The daemon notices what is done to its files from when they are opened on.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/service/compiled.h"
#include "tools/chainio-runtime/edition.h"
#include "tools/chainio-runtime/watch.h"

namespace chainio::runtime_tool {
namespace {

constexpr const char* kSpec = R"(
app rows { files rows = "*.rows" { immutable } }
chain row(file: file rows) -> bytes(max 64) hops 1 { step s(b: block at 0 for 12 in file) { return b } }
)";

class Watch : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(mkdtemp(folder_.data()), nullptr);
        write("first bytes!");
        options_.engine = "user";
        options_.socket = folder_ + "/socket";
        options_.files = {"rows=" + path()};
        auto ring = make_ring(options_, fallbacks_);
        ASSERT_TRUE(ring) << ring.error();
        ring_ = std::move(*ring);
        auto edition = make_edition(options_, service::compiled(kSpec), ring_.get());
        ASSERT_TRUE(edition) << edition.error().message;
        edition_ = std::move(*edition);
        const auto opened = open_edition(options_, *edition_);
        ASSERT_TRUE(opened) << opened.error().message;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string path() const { return folder_ + "/a.rows"; }
    void write(std::string_view bytes) const {
        // Into the same inode, whose size differs: the kernel's clock may not have gone on since.
        std::ofstream(path(), std::ios::app) << bytes;
    }
    std::vector<FileWatch::Notice> looked() {
        watch_.look_after(*edition_);
        return watch_.look();
    }

    std::string folder_ = (std::filesystem::temp_directory_path() / "chainio-watch-XXXXXX").string();
    Options options_;
    metrics::Fallbacks fallbacks_;
    std::unique_ptr<ring::Shared> ring_;
    std::unique_ptr<Edition> edition_;
    FileWatch watch_;
};

TEST_F(Watch, SaysNothingOfFilesThatAreAsTheyWereOpened) { EXPECT_TRUE(looked().empty()); }

// A reload opens the files on another thread, and it may take long before they are watched.
TEST_F(Watch, TellsOnceOfWhatWasWrittenBetweenTheOpeningAndTheWatch) {
    write("more");
    const auto notices = looked();
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_TRUE(notices[0].changed);
    EXPECT_NE(notices[0].message.find("is declared immutable and was written to"), std::string::npos)
        << notices[0].message;
    EXPECT_TRUE(watch_.look().empty());
}

TEST_F(Watch, TellsOfAFileThatWasReplacedBetweenTheOpeningAndTheWatch) {
    const std::string other = folder_ + "/other";
    std::ofstream(other) << "first bytes!";
    std::filesystem::rename(other, path());
    const auto notices = looked();
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_NE(notices[0].message.find("was replaced"), std::string::npos) << notices[0].message;
}

}  // namespace
}  // namespace chainio::runtime_tool
