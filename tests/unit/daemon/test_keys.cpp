// The lines of `--keys`: when there is one to take, and what none can be taken for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tools/chainio/keys.h"

namespace chainio::tool {
namespace {

// Keys that come through a pipe, as somebody writes them.
class PipedKeys : public testing::Test {
  protected:
    void SetUp() override {
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        write_ = run::Descriptor(ends[1]);
        const run::Descriptor read(ends[0]);
        auto opened = Keys::open("/proc/self/fd/" + std::to_string(ends[0]));
        ASSERT_TRUE(opened) << opened.error().why;
        keys_ = std::make_unique<Keys>(std::move(*opened));
    }
    void write(std::string_view text) const {
        ASSERT_EQ(::write(write_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    void end() { write_.reset(); }
    // `(none)` at the end.
    std::string next() {
        std::string line;
        const auto there = keys_->next(line);
        return !there ? there.error().why : *there ? line : "(none)";
    }

    run::Descriptor write_;
    std::unique_ptr<Keys> keys_;
};

TEST_F(PipedKeys, AreAtHandOnceAWholeLineIsThere) {
    EXPECT_FALSE(keys_->at_hand());
    write("fi");
    EXPECT_FALSE(keys_->at_hand());
    write("rst\n\nthi");
    EXPECT_TRUE(keys_->at_hand());
    EXPECT_EQ(next(), "first");
    EXPECT_TRUE(keys_->at_hand());
    EXPECT_EQ(next(), "");
    EXPECT_FALSE(keys_->at_hand());
    end();
    EXPECT_TRUE(keys_->at_hand());
    EXPECT_EQ(next(), "thi");
    EXPECT_EQ(keys_->number(), 3u);
    EXPECT_TRUE(keys_->at_hand());
    EXPECT_EQ(next(), "(none)");
    EXPECT_EQ(next(), "(none)");
}

TEST_F(PipedKeys, AreTakenWithoutBeingAskedFor) {
    write("a\nb");
    end();
    EXPECT_EQ(next(), "a");
    EXPECT_EQ(next(), "b");
    EXPECT_EQ(next(), "(none)");
}

// As long as one may be, and longer, in files.
TEST(Keys, AreAtMostSoLong) {
    constexpr std::size_t kMost = std::size_t{16} << 20;
    std::string path = testing::TempDir() + "chainio-keys.XXXXXX";
    const run::Descriptor file(mkstemp(path.data()));
    ASSERT_TRUE(file);
    const std::string text = "a\n" + std::string(kMost, 'b') + "\n" + std::string(kMost + 1, 'c') + "\nd\n";
    EXPECT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    auto keys = Keys::open(path);
    EXPECT_EQ(unlink(path.c_str()), 0);
    ASSERT_TRUE(keys);
    std::string line;
    EXPECT_TRUE(keys->next(line).value_or(false));
    EXPECT_TRUE(keys->next(line).value_or(false));
    EXPECT_EQ(line, std::string(kMost, 'b'));
    for (int i = 0; i < 2; i++) {
        EXPECT_TRUE(keys->at_hand());
        const auto there = keys->next(line);
        ASSERT_FALSE(there);
        EXPECT_FALSE(there.error().system);
        EXPECT_EQ(there.error().why, path + ":3: the line is longer than 16 MiB, as no parameters are");
    }
}

TEST(Keys, ThatCannotBeReadAreNotTheEnd) {
    auto keys = Keys::open("/proc/self");
    ASSERT_TRUE(keys);
    std::string line;
    EXPECT_TRUE(keys->at_hand());
    for (int i = 0; i < 2; i++) {
        const auto there = keys->next(line);
        ASSERT_FALSE(there);
        EXPECT_TRUE(there.error().system);
        EXPECT_EQ(there.error().why, "cannot read keys '/proc/self': Is a directory");
    }
}

}  // namespace
}  // namespace chainio::tool
