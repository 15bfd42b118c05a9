// The daemon notices what is done to its files from when they are opened on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/unit/service/compiled.h"
#include "tools/chainio-runtime/edition.h"
#include "tools/chainio-runtime/watch.h"

namespace chainio::runtime_tool {
namespace {

#define CHAIN "chain row(file: file rows) -> bytes(max 64) hops 1 { step s(b: block at 0 for 12 in file) { return b } }"
constexpr const char* kImmutable = "app rows { files rows = \"*.rows\" { immutable } }" CHAIN;
constexpr const char* kChanging = "app rows { files rows = \"*.rows\" { } }" CHAIN;

// What the file system knows a file by, and when it was made.
struct Known {
    std::uint64_t number = 0;
    std::int64_t seconds = 0;
    std::uint32_t nanoseconds = 0;
    bool is_another_of_the_number(const Known& other) const {
        return number == other.number && (seconds != other.seconds || nanoseconds != other.nanoseconds);
    }
};

Known known(const std::string& path) {
    struct statx file{};
    if (statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &file) != 0) return {};
    if ((file.stx_mask & STATX_BTIME) == 0) return {.number = file.stx_ino};
    return {.number = file.stx_ino, .seconds = file.stx_btime.tv_sec, .nanoseconds = file.stx_btime.tv_nsec};
}

class Watch : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(mkdtemp(folder_.data()), nullptr);
        open(kImmutable);
    }
    void open(const char* spec) {
        std::filesystem::remove(path());
        write("first bytes!");
        options_.engine = "user";
        options_.socket = folder_ + "/socket";
        options_.files = {"rows=" + path()};
        edition_.reset();
        auto ring = make_ring(options_, {}, fallbacks_);
        ASSERT_TRUE(ring) << ring.error();
        ring_ = std::move(*ring);
        auto edition = make_edition(options_, service::compiled(spec), ring_.get());
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
        return look();
    }
    std::vector<FileWatch::Notice> look() {
        EXPECT_TRUE(watch_.begin()) << "no thread";
        EXPECT_TRUE(watch_.is_looking());
        pollfd done{.fd = watch_.fd(), .events = POLLIN, .revents = 0};
        EXPECT_EQ(poll(&done, 1, 60'000), 1);
        EXPECT_TRUE(watch_.is_done());
        auto notices = watch_.take();
        EXPECT_FALSE(watch_.is_looking());
        return notices;
    }

    // Another file in the place of one that nobody holds, with its number; false where the file system gives it none.
    bool replace_by_its_number() const {
        const Known before = known(path());
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        do {
            std::filesystem::remove(path());
            std::ofstream(path()) << "other bytes.";
            if (known(path()).is_another_of_the_number(before)) return true;
        } while (std::chrono::steady_clock::now() < until);
        return false;
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
    EXPECT_TRUE(look().empty());
}

// As `cp -p` and `rsync -t` do it: what is written has the size and the time of what was there.
TEST_F(Watch, TellsOnceOfATimeThatWasPutBack) {
    for (const bool immutable : {true, false}) {
        open(immutable ? kImmutable : kChanging);
        struct stat before{}, now{};
        ASSERT_EQ(stat(path().c_str(), &before), 0);
        const timespec times[] = {before.st_atim, before.st_mtim};
        do {  // the kernel's clock goes on in steps
            std::fstream(path(), std::ios::in | std::ios::out) << "other bytes!";
            ASSERT_EQ(utimensat(AT_FDCWD, path().c_str(), times, 0), 0);
            ASSERT_EQ(stat(path().c_str(), &now), 0);
        } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec && now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
        ASSERT_EQ(now.st_size, before.st_size);
        const auto notices = looked();
        ASSERT_EQ(notices.size(), immutable ? 1u : 0u);
        if (!immutable) continue;
        EXPECT_TRUE(notices[0].changed);
        EXPECT_EQ(notices[0].message, "'" + path() +
                                          "' is declared immutable and may have been written to, as its time "
                                          "of change (ctime) is another; it is opened anew");
        EXPECT_TRUE(look().empty());
    }
}

TEST_F(Watch, TellsOfAFileThatWasReplacedBetweenTheOpeningAndTheWatch) {
    const std::string other = folder_ + "/other";
    std::ofstream(other) << "first bytes!";
    std::filesystem::rename(other, path());
    const auto notices = looked();
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_NE(notices[0].message.find("was replaced"), std::string::npos) << notices[0].message;
}

// One that could not be taken is not held open, so that a file system gives its number away as soon as it is gone.
TEST_F(Watch, TellsOfAFileThatHasTheNumberOfOneThatWasToldOf) {
    open(kChanging);
    watch_.look_after(*edition_);
    const std::string other = folder_ + "/other";
    std::ofstream(other) << "no row";
    std::filesystem::rename(other, path());
    ASSERT_EQ(look().size(), 1u);
    EXPECT_TRUE(look().empty());
    if (!replace_by_its_number()) GTEST_SKIP() << "the file system gives no number twice";
    const auto notices = look();
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_TRUE(notices[0].changed);
    EXPECT_NE(notices[0].message.find("was replaced"), std::string::npos) << notices[0].message;
    EXPECT_TRUE(look().empty());
}

}  // namespace
}  // namespace chainio::runtime_tool
