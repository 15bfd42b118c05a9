#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tools/chainio/start/expects.h"

namespace chainio::start {
namespace {

namespace fs = std::filesystem;

class Expects : public testing::Test {
  protected:
    Expects() : plan_(std::make_unique<shim::Plan>()) {
        std::string name = (fs::temp_directory_path() / "chainio-expects.XXXXXX").string();
        folder_ = fs::canonical(::mkdtemp(name.data()));
    }
    ~Expects() override { fs::remove_all(folder_); }

    void match(const char* pattern) { std::strcpy(plan_->classes[plan_->class_count++].pattern, pattern); }
    void exe(const char* pattern) { std::strcpy(plan_->exes[plan_->exe_count++], pattern); }
    std::string file(const std::string& name) {
        const fs::path path = folder_ / name;
        fs::create_directories(path.parent_path());
        std::ofstream(path) << "x";
        return path.string();
    }
    bool expects(const std::vector<std::string>& words, const std::string& program = "/bin/sh") {
        return expects_matches(*plan_, program, words);
    }

    std::unique_ptr<shim::Plan> plan_;
    fs::path folder_;
};

TEST_F(Expects, AFileThatAClassMatches) {
    match("*.db");
    const std::string matched = file("a.db"), other = file("a.txt");
    EXPECT_TRUE(expects({"-readonly", matched, "select 1"}));
    EXPECT_TRUE(expects({"--file=" + matched}));
    EXPECT_FALSE(expects({other}));
    EXPECT_FALSE(expects({}));
    EXPECT_FALSE(expects({"", "=", "--file=", "x.db", std::string(10'000, 'x') + ".db"})) << "no such files";
}

TEST_F(Expects, ByItsRealNameToo) {
    match("*.db");
    fs::create_symlink(file("a.db"), folder_ / "link");
    EXPECT_TRUE(expects({(folder_ / "link").string()}));
    const fs::path before = fs::current_path();
    fs::current_path(folder_);
    EXPECT_TRUE(expects({"./a.db"}));
    EXPECT_FALSE(expects({"./b.db"}));
    fs::current_path(before);
}

TEST_F(Expects, AFolderThatHoldsOne) {
    match("*.sst");
    file("with/1.sst");
    file("without/1.log");
    fs::create_directories(folder_ / "named" / "folder.sst");
    EXPECT_TRUE(expects({"--db=" + (folder_ / "with").string()}));
    EXPECT_FALSE(expects({"--db=" + (folder_ / "without").string()}));
    EXPECT_FALSE(expects({(folder_ / "named").string()}));
}

TEST_F(Expects, AtOnceAsFarAsTheKernelRemembers) {
    match("*.db");
    const std::string matched = file("a.db"), other = file("a.txt");
    std::ifstream(matched).get();  // by now it does, where it can be asked
    const auto at_once = [&](const std::vector<std::string>& words) {
        return expects_at_once(*plan_, "/bin/sh", words);
    };
    if (at_once({matched}) == Guess::unknown) GTEST_SKIP() << "no RESOLVE_CACHED here (Linux 5.12)";
    EXPECT_EQ(at_once({matched}), Guess::a_match);
    EXPECT_EQ(at_once({"-readonly", "--file=" + matched}), Guess::a_match);
    EXPECT_EQ(at_once({other}), Guess::nothing);
    EXPECT_EQ(at_once({"-v", ""}), Guess::nothing);
    const std::string unseen = "/proc/self/fdinfo/" + std::to_string(::open("/dev/null", O_RDONLY));  // left open
    EXPECT_EQ(at_once({unseen}), Guess::unknown) << "looked up anew each time";
    EXPECT_EQ(at_once({unseen, matched}), Guess::a_match);
    EXPECT_EQ(at_once({"/proc/self"}), Guess::unknown) << "a folder without a disk";
}

TEST_F(Expects, OnlyOfAProgramThatIsMeant) {
    match("*.db");
    const std::string matched = file("a.db"), program = file("sqlite");
    exe("/nowhere/*");
    EXPECT_FALSE(expects({matched}, program));
    exe("sqli*");
    EXPECT_TRUE(expects({matched}, program));
}

}  // namespace
}  // namespace chainio::start
