// What is shown on a terminal: nothing that a name holds does anything to it, and no page is larger than it is.
#include <gtest/gtest.h>

#include "tools/chainio/run/screen.h"

namespace chainio::run {
namespace {

TEST(Screen, NamesMoveNoCursor) {
    EXPECT_EQ(visible("plain.rows, ünïcödé 文"), "plain.rows, ünïcödé 文");
    EXPECT_EQ(visible("\x1b[31mred\r\n\t\x7f"), "\\x1b[31mred\\x0d\\x0a\\x09\\x7f");
    EXPECT_EQ(visible("\xc2\x9b\x31m"), "\\xc2\\x9b1m") << "a control of terminals of 8 bits";
    EXPECT_EQ(visible("a\xe4z \xe6\x96"), "a\\xe4z \\xe6\\x96") << "no UTF-8, and the begin of a character";
    EXPECT_EQ(visible(""), "");
}

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
