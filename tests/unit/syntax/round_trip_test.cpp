// Every spec of the repository through every printer.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/syntax/read.h"

namespace chainio::syntax::test {
namespace {

std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

void expect_round_trip(const std::string& name, const std::string& text) {
    const auto first = read(name, text);
    ASSERT_EQ(first->errors(), "") << first->rendered();
    const std::string canonical = print_chain(*first->file), formatted = format_chain(*first->file),
                      yaml = print_yaml(*first->file);
    EXPECT_EQ(print_chain(*read_chain(canonical)->file), canonical) << name;
    EXPECT_EQ(format_chain(*read_chain(formatted)->file), formatted) << name;
    EXPECT_EQ(print_chain(*read_chain(formatted)->file), canonical) << name;
    const auto again = read_yaml(yaml);
    ASSERT_EQ(again->errors(), "") << again->rendered();
    EXPECT_EQ(print_chain(*again->file), canonical) << name;
    EXPECT_EQ(print_yaml(*again->file), yaml) << name;
    EXPECT_EQ(format_chain(*again->file), formatted) << name;
    EXPECT_GE(std::count(formatted.begin(), formatted.end(), '#'), std::count(text.begin(), text.end(), '#'))
        << name << ": comments are lost";
}

TEST(RoundTrip, SpecsOfTheRepository) {
    std::size_t files = 0;
    for (const char* folder : {"/stdlib-chains", "/examples", "/tests/fuzz/seeds/fuzz_chain"}) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(CHAINIO_ROOT) + folder)) {
            if (entry.path().extension() != ".chain") continue;
            expect_round_trip(entry.path().string(), slurp(entry.path()));
            ++files;
        }
    }
    EXPECT_GT(files, 8U);
}

TEST(RoundTrip, CommentsKeepTheirPlaces) {
    const std::string text = R"(# of the file

# of the record
record R {  # behind its brace
  # of a
  a: u8  # behind a

  b: u8
  # before the end
}

chain c() {
  # of the step
  step s(r: R at 0 for 8) {
    # of the let
    let x = r.a  # behind the let

    if x == 1 {  # behind the if
      # of the return
      return 1
    } else {
      return 2
      # before the end of else
    }
    match x {
      # of the arm
      1 { return 3 }  # behind the arm
      else fail malformed  # behind else
    }
  }
  # of done
  done { return 4 }
}
# at the end
)";
    const auto got = read_chain(text);
    ASSERT_EQ(got->errors(), "") << got->rendered();
    const std::string formatted = format_chain(*got->file);
    for (const char* comment :
         {"# of the file", "record R {  # behind its brace",
          "  # of a\n  a: u8  # behind a\n\n  b: u8\n  # before the end\n}",
          "    # of the let\n    let x = r.a  # behind the let\n\n    if x == 1 {  # behind the if\n      # of the "
          "return\n",
          "      return 2\n      # before the end of else\n",
          "      # of the arm\n      1 { return 3 }  # behind the arm\n", "else fail malformed  # behind else",
          "  # of done\n  done { return 4 }\n", "# at the end\n"}) {
        EXPECT_NE(formatted.find(comment), std::string::npos) << comment << "\n" << formatted;
    }
    EXPECT_EQ(print_chain(*got->file).find('#'), std::string::npos);
    EXPECT_EQ(format_chain(*read_chain(formatted)->file), formatted);
}

TEST(RoundTrip, CanonicalLinesAreThoseOfThePrintedText) {
    const auto got = read_chain(
        "# c\nconst N = 1\nchain c() {\n\n  # d\n  step s(b: block at 0 for 8) {\n    var x = 1\n    if x == 1 { x = 2 "
        "} else { x = 3 }\n  }\n}\n");
    const std::string text = print_chain(*got->file);
    EXPECT_EQ(text,
              "const N = 1\n\nchain c() {\n  step s(b: block at 0 for 8) {\n    var x = 1\n    if x == 1 {\n      x = "
              "2\n    } else {\n      x = 3\n    }\n  }\n}\n");
    const auto& chain = std::get<ast::Chain>(got->file->items.at(1).node);
    EXPECT_EQ(chain.canonical_line, 3U);
    EXPECT_EQ(chain.steps.at(0).canonical_line, 4U);
    const auto& stmts = chain.steps.at(0).body.stmts;
    EXPECT_EQ(stmts.at(0)->canonical_line, 5U);
    EXPECT_EQ(stmts.at(1)->canonical_line, 6U);
    EXPECT_EQ(std::get<ast::If>(stmts.at(1)->node).no->stmts.at(0)->canonical_line, 9U);
}

TEST(RoundTrip, LongLinesAreBrokenWhereTheyMayBe) {
    std::string text =
        "service s on udp 1 via xdp {\n  on request {\n    let total = first_long_name + second_long_name * "
        "third_long_name - fourth_long_name + "
        "fifth_long_name - sixth_long_name\n    reply ";
    for (int i = 0; i < 12; ++i) text += "\"part \" request.some_field:dec ";
    text += "\n  }\n}\n";
    const auto got = read_chain(text);
    ASSERT_EQ(got->errors(), "") << got->rendered();
    const std::string printed = print_chain(*got->file);
    std::stringstream lines(printed);
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 120U) << line;
    EXPECT_GT(count, 8U);
    const auto again = read_chain(printed);
    ASSERT_EQ(again->errors(), "") << again->rendered() << printed;
    EXPECT_EQ(print_chain(*again->file), printed);
}

}  // namespace
}  // namespace chainio::syntax::test
