#include "compiler/diag/utf8.h"

#include <gtest/gtest.h>

namespace chainio::diag {
namespace {

TEST(Escaped, NamesDoNothingToATerminal) {
    EXPECT_EQ(escaped("plain.rows, ünïcödé 文"), "plain.rows, ünïcödé 文");
    EXPECT_EQ(escaped("\x1b[31mred\r\n\t\x7f"), "\\x1b[31mred\\x0d\\x0a\\x09\\x7f");
    EXPECT_EQ(escaped("\xc2\x9b\x31m"), "\\xc2\\x9b1m") << "a control of terminals of 8 bits";
    EXPECT_EQ(escaped("a\xe2\x80\xae"
                      "b"),
              "a\\xe2\\x80\\xaeb")
        << "what follows would be shown from right to left";
    EXPECT_EQ(escaped("a\xe4z \xe6\x96"), "a\\xe4z \\xe6\\x96") << "no UTF-8, and the begin of a character";
    EXPECT_EQ(escaped(""), "");
    EXPECT_EQ(escaped_lines("one\x1b\n\ntwo\r\n"), "one\\x1b\n\ntwo\\x0d\n");
    EXPECT_EQ(escaped_lines("\nno end"), "\nno end");
    EXPECT_EQ(escaped_lines(""), "");
}

}  // namespace
}  // namespace chainio::diag
