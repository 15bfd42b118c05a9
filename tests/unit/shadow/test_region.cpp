// The region's files: whose they are, what memory they have, and when they go away.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

// Servers of tests and programs beside would clean up what is left here, so that regions lie in a folder of the test's.
class Region : public testing::Test {
  protected:
    Region() {
        EXPECT_NE(mkdtemp(base_.data()), nullptr);
        setenv("XDG_RUNTIME_DIR", base_.c_str(), 1);
    }
    ~Region() override {
        if (before_.empty())
            unsetenv("XDG_RUNTIME_DIR");
        else
            setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
        std::filesystem::remove_all(base_);
    }
    const std::string& base() const { return base_; }

  private:
    std::string before_ = std::getenv("XDG_RUNTIME_DIR") == nullptr ? "" : std::getenv("XDG_RUNTIME_DIR");
    std::string base_ = "/dev/shm/chainio-test.XXXXXX";
};

TEST_F(Region, IsPrivateAndGoesAwayWithItsServer) {
    std::string path, directory;
    {
        auto server = server_of(kPointers);
        path = server->region_path();
        directory = path.substr(0, path.rfind('/'));
        struct stat info{};
        ASSERT_EQ(stat(path.c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0777, 0600u);
        EXPECT_EQ(info.st_size, static_cast<off_t>(shim::kRegionBytes));
        ASSERT_EQ(stat(directory.c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0777, 0700u);
        EXPECT_EQ(server->region().server, static_cast<std::uint32_t>(getpid()));
        EXPECT_STREQ(server->region().plan.classes[0].pattern, "*.ptr");
    }
    EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(Region, WhatProgramsTouchHasItsMemoryFromTheBeginning) {
    const auto server = server_of(kPointers);
    const std::string path = server->region_path();
    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_GE(info.st_blocks * 512, static_cast<off_t>(offsetof(shim::Region, rings) - shim::kPlanBytes));
    EXPECT_LT(info.st_blocks * 512, static_cast<off_t>(shim::kRegionBytes / 4)) << "but for rings that nobody took";
    ASSERT_EQ(stat((path.substr(0, path.rfind('/')) + shim::kPlanFile).c_str(), &info), 0);
    EXPECT_GE(info.st_blocks * 512, static_cast<off_t>(shim::kPlanUses));
}

TEST_F(Region, OfADeadServerIsCleanedUp) {
    const pid_t child = fork();
    if (child == 0) {
        auto server = Server::create(compiled(kPointers), {});
        _exit(server ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    const auto left = [&] { return !std::filesystem::is_empty(base()); };
    ASSERT_TRUE(left()) << "the child left nothing behind that could be cleaned up";
    server_of(kPointers);
    EXPECT_FALSE(left());
}

// The one that was killed had other variables.
TEST_F(Region, OfADeadServerIsCleanedUpWhereverItLies) {
    const pid_t gone = fork();
    if (gone == 0) _exit(0);
    ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
    for (const std::string in : {"/dev/shm", "/tmp"}) {
        std::string directory = in + "/chainio-run." + std::to_string(gone) + ".XXXXXX";
        ASSERT_NE(mkdtemp(directory.data()), nullptr);
        EXPECT_TRUE(make_region(directory + "/region"));
        server_of(kPointers);
        if (in == "/tmp") remove_left_overs_in_last_base();
        EXPECT_FALSE(std::filesystem::exists(directory));
        std::filesystem::remove_all(directory);
    }
}

TEST_F(Region, OfAServerThatOnlyItsLockTellsOfStays) {
    const pid_t gone = fork();
    if (gone == 0) _exit(0);
    ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
    std::string directory = base() + "/chainio-run." + std::to_string(gone) + ".XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    const int lock = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(flock(lock, LOCK_SH), 0);
    server_of(kPointers);
    EXPECT_TRUE(std::filesystem::exists(directory)) << "it has nothing in it yet";
    ASSERT_TRUE(make_region(directory + "/region"));
    server_of(kPointers);
    EXPECT_TRUE(std::filesystem::exists(directory + "/region"));
    close(lock);
    server_of(kPointers);
    EXPECT_FALSE(std::filesystem::exists(directory));
}

// Whose process need not be one that can be seen from here.
TEST_F(Region, OfAnotherUserStays) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make another user's directory";
    const pid_t gone = fork();
    if (gone == 0) _exit(0);
    ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
    std::string directory = base() + "/chainio-run." + std::to_string(gone) + ".XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    ASSERT_EQ(chown(directory.c_str(), 65534, 65534), 0);
    server_of(kPointers);
    EXPECT_TRUE(std::filesystem::exists(directory));
    ASSERT_EQ(chown(directory.c_str(), 0, 0), 0);
    server_of(kPointers);
    EXPECT_FALSE(std::filesystem::exists(directory)) << "one's own is cleaned up";
}

TEST_F(Region, ThatIsNoneOfThisProcessIsNotAdopted) {
    auto made = RegionFile::create();
    ASSERT_TRUE(made) << made.error();
    const std::string path = made->path();
    const auto is_adopted = [&] {
        const auto adopted = RegionFile::adopt(path, dup(made->hand_on_lock()));
        if (!adopted) EXPECT_EQ(adopted.error(), path + ": is no region of this process");
        return adopted.has_value();
    };
    shim::Region& region = made->get();
    region.magic++;
    EXPECT_FALSE(is_adopted());
    region.magic--;
    region.version++;
    EXPECT_FALSE(is_adopted());
    region.version--;
    region.server++;
    EXPECT_FALSE(is_adopted());
    EXPECT_TRUE(std::filesystem::exists(path)) << "it is another's";
}

TEST_F(Region, ThatItsOwnerCannotMapAgainIsGivenUp) {
    auto made = RegionFile::create();
    ASSERT_TRUE(made) << made.error();
    const std::string path = made->path();
    ASSERT_EQ(unlink(path.c_str()), 0);
    ASSERT_EQ(symlink("elsewhere", path.c_str()), 0);
    const auto adopted = RegionFile::adopt(path, dup(made->hand_on_lock()));
    ASSERT_FALSE(adopted);
    EXPECT_EQ(adopted.error(), path + ": cannot be mapped: " + std::strerror(ELOOP));
    EXPECT_EQ(made->get().server, 0U) << "programs that have mapped it do not hear of that";
    EXPECT_TRUE(std::filesystem::is_empty(base()));
}

TEST_F(Region, IsLockedFromItsBeginningToItsEnd) {
    const auto is_locked = [](const std::string& directory) {
        const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
        close(fd);
        return locked;
    };
    auto made = RegionFile::create();
    ASSERT_TRUE(made) << made.error();
    const std::string directory = made->path().substr(0, made->path().rfind('/'));
    const auto server = server_of(kPointers);
    for (const std::string& path : {made->path(), server->region_path()})
        EXPECT_TRUE(is_locked(path.substr(0, path.rfind('/')))) << path;
    EXPECT_EQ(fcntl(made->hand_on_lock(), F_GETFD), 0) << "for the program that this process is to become";
}

}  // namespace
}  // namespace chainio::shadow::test
