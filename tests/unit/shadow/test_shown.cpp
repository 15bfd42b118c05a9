#include <gtest/gtest.h>

#include "runtime/shadow/shown.h"

namespace chainio::shadow {
namespace {

TEST(Shown, NamesDoNothingToATerminal) {
    EXPECT_EQ(shown("plain.rows, ünïcödé 文"), "plain.rows, ünïcödé 文");
    EXPECT_EQ(shown("\x1b[31mred\r\n\t\x7f"), "\\x1b[31mred\\x0d\\x0a\\x09\\x7f");
    EXPECT_EQ(shown("\xc2\x9b\x31m"), "\\xc2\\x9b1m") << "a control of terminals of 8 bits";
    EXPECT_EQ(shown("a\xe4z \xe6\x96"), "a\\xe4z \\xe6\\x96") << "no UTF-8, and the begin of a character";
    EXPECT_EQ(shown(""), "");
}

}  // namespace
}  // namespace chainio::shadow
