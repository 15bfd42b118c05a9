// No page is larger than the terminal.
#include <gtest/gtest.h>

#include "tools/chainio/run/screen.h"

namespace chainio::run {
namespace {

TEST(Screen, PagesFit) {
    const std::string page = "one two three\n文文文文\nx\n";
    EXPECT_EQ(fitted(page, {}), "one two three\n文文文文\nx");
    EXPECT_EQ(fitted(page, {.columns = 7, .rows = 0}), "one two\n文文文\nx") << "a wide character is not cut in two";
    EXPECT_EQ(fitted(page, {.columns = 40, .rows = 3}), "one two three\n文文文文\nx");
    EXPECT_EQ(fitted(page, {.columns = 40, .rows = 2}), "one two three\n(2 lines more)");
    EXPECT_EQ(fitted(page, {.columns = 4, .rows = 2}), "one \n(2 l");
    EXPECT_EQ(fitted(page, {.columns = 40, .rows = 1}), "one two three");
    EXPECT_EQ(fitted("", {.columns = 4, .rows = 2}), "");
}

}  // namespace
}  // namespace chainio::run
