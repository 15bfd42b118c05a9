#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/diag/diag.h"

namespace chainio::diag {
namespace {

std::string one(const std::string& text, Span span) {
    Sources sources;
    sources.add("a.chain", text);
    Diagnostics d;
    d.report(500, span, "what", "");
    return render_text(d, sources, false);
}

TEST(RenderText, QuotesTheLineWithCarets) {
    Sources sources;
    const FileId f = sources.add("app.chain", "record Node {}\n\nstep walk(n: Nod at 0 for 512) {\n");
    Diagnostics d;
    d.report(500, {f, 3, 14, 3, 17}, "unknown record `Nod`", "did you mean `Node`?",
             {{{f, 1, 8, 1, 12}, "`Node` is declared here"}, {{}, "no place"}});
    EXPECT_EQ(render_text(d, sources, false),
              "app.chain:3:14: error[CH0500]: unknown record `Nod`\n"
              "  3 | step walk(n: Nod at 0 for 512) {\n"
              "    |              ^^^\n"
              "  note: app.chain:1:8: `Node` is declared here\n"
              "  1 | record Node {}\n"
              "    |        ^^^^\n"
              "  note: no place\n"
              "  hint: did you mean `Node`?\n");
}

TEST(RenderText, ExpandsTabs) {
    EXPECT_EQ(one("a\tbad\n", {1, 1, 3, 1, 6}),
              "a.chain:1:3: error[CH0500]: what\n"
              "  1 | a   bad\n"
              "    |     ^^^\n");
}

TEST(RenderText, CountsWideAndCombiningCharacters) {
    EXPECT_EQ(one("\xc3\xa9\xe6\xbc\xa2"
                  "e\xcc\x81 bad\n",
                  {1, 1, 10, 1, 13}),
              "a.chain:1:10: error[CH0500]: what\n"
              "  1 | \xc3\xa9\xe6\xbc\xa2"
              "e\xcc\x81 bad\n"
              "    |      ^^^\n");
}

TEST(RenderText, ReplacesWhatATerminalWouldObey) {
    EXPECT_EQ(one("a\x1b[2Jb\xff\n", {1, 1, 6, 1, 7}),
              "a.chain:1:6: error[CH0500]: what\n"
              "  1 | a\xef\xbf\xbd[2Jb\xef\xbf\xbd\n"
              "    |      ^\n");
}

TEST(RenderText, ShowsTheEndsOfASpanOfSeveralLines) {
    EXPECT_EQ(one("x\nif a {\n  b\n  c\n} else\n", {1, 2, 4, 5, 2}),
              "a.chain:2:4: error[CH0500]: what\n"
              "  2 | if a {\n"
              "    |    ^^^\n"
              "    | ...\n"
              "  5 | } else\n"
              "    | ^\n");
    EXPECT_EQ(one("if a {\n  b }\n", {1, 1, 1, 2, 6}),
              "a.chain:1:1: error[CH0500]: what\n"
              "  1 | if a {\n"
              "    | ^^^^^^\n"
              "  2 |   b }\n"
              "    |   ^^^\n");
}

TEST(RenderText, CutsLongLinesAroundTheCaret) {
    const std::string text = one(std::string(300, 'a') + "bad" + std::string(300, 'z') + "\n", {1, 1, 301, 1, 304});
    EXPECT_EQ(text,
              "a.chain:1:301: error[CH0500]: what\n"
              "  1 | ..." +
                  std::string(40, 'a') + "bad" + std::string(57, 'z') +
                  "...\n"
                  "    |    " +
                  std::string(40, ' ') + "^^^\n");
    const std::string huge = one(std::string(4 << 20, 'a'), {1, 1, 2 << 20, 1, 4 << 20});
    EXPECT_LT(huge.size(), 400U);
    EXPECT_NE(huge.find('^'), std::string::npos);
}

TEST(RenderText, PointsPastTheEndOfALine) {
    EXPECT_EQ(one("ab", {1, 1, 3, 1, 3}), "a.chain:1:3: error[CH0500]: what\n  1 | ab\n    |   ^\n");
    EXPECT_EQ(one("", {1, 1, 1, 1, 1}), "a.chain:1:1: error[CH0500]: what\n  1 |\n    | ^\n");
    EXPECT_EQ(one("ab", {1, 77, 1, 77, 5}), "a.chain:77:1: error[CH0500]: what\n")
        << "a line that is not there is not quoted";
}

TEST(RenderText, SurvivesAnySpan) {
    for (const std::uint32_t col : {0U, 1U, 4U, 4294967295U}) {
        for (const std::uint32_t end : {0U, 1U, 3U, 4294967295U}) {
            for (const std::uint32_t end_line : {0U, 1U, 2U, 4294967295U}) {
                EXPECT_NE(one("abc\nd\n", {1, 1, col, end_line, end}).find("what"), std::string::npos);
            }
        }
    }
}

TEST(RenderText, ColourOnlyAddsEscapes) {
    Sources sources;
    const FileId f = sources.add("a", "x = y\n");
    Diagnostics d;
    d.report(500, {f, 1, 5, 1, 6}, "m", "h", {{{f, 1, 1, 1, 2}, "n"}});
    std::string coloured = render_text(d, sources, true);
    EXPECT_NE(coloured.find("\x1b[1;31merror[CH0500]:\x1b[0m"), std::string::npos);
    for (std::size_t at; (at = coloured.find('\x1b')) != std::string::npos;)
        coloured.erase(at, coloured.find('m', at) - at + 1);
    EXPECT_EQ(coloured, render_text(d, sources, false));
}

TEST(RenderText, SumsUp) {
    Sources sources;
    Diagnostics d({}, 2);
    for (std::uint32_t i = 0; i < 4; i++) d.report(500, {}, std::to_string(i), "");
    EXPECT_EQ(render_text(d, sources, false),
              "chainc: error[CH0500]: 0\n"
              "chainc: error[CH0500]: 1\n"
              "4 errors; 2 more not shown\n");
}

TEST(RenderJson, HoldsEverything) {
    Sources sources;
    const FileId f = sources.add("a.chain", "x\xff\n");
    Diagnostics d;
    d.report(500, {f, 1, 2, 1, 3}, "bad byte \xff", "fix it", {{{f, 1, 1, 1, 2}, "see"}});
    const auto json = nlohmann::json::parse(render_json(d, sources));
    EXPECT_EQ(json["errors"], 1);
    const auto& one = json["diagnostics"].at(0);
    EXPECT_EQ(one["code"], "CH0500");
    EXPECT_EQ(one["name"], "cannot-read-file");
    EXPECT_EQ(one["file"], "a.chain");
    EXPECT_EQ(one["line"], 1);
    EXPECT_EQ(one["column"], 2);
    EXPECT_EQ(one["hint"], "fix it");
    EXPECT_EQ(one["notes"][0]["column"], 1);
}

TEST(RenderSarif, IsSarif) {
    Sources sources;
    const FileId f = sources.add("dir/a b.chain", "\xc3\xa9x\n");
    Diagnostics d;
    d.report(500, {f, 1, 3, 1, 4}, "m", "h");
    d.report(500, {}, "no place", "h");
    const auto json = nlohmann::json::parse(render_sarif(d, sources));
    EXPECT_EQ(json["version"], "2.1.0");
    const auto& run = json["runs"].at(0);
    EXPECT_EQ(run["tool"]["driver"]["rules"].size(), 1U);
    const auto& placed = run["results"].at(1);
    EXPECT_EQ(placed["ruleId"], "CH0500");
    EXPECT_EQ(placed["level"], "error");
    const auto& physical = placed["locations"][0]["physicalLocation"];
    EXPECT_EQ(physical["artifactLocation"]["uri"], "dir/a%20b.chain");
    EXPECT_EQ(physical["region"]["startColumn"], 2) << "code points, not bytes";
    EXPECT_FALSE(run["results"].at(0).contains("locations"));
}

}  // namespace
}  // namespace chainio::diag
