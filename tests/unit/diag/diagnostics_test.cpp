#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/diag/diag.h"

namespace chainio::diag {
namespace {

const CatalogEntry* first_warning() {
    for (const CatalogEntry& entry : catalog()) {
        if (entry.severity == Severity::warning) return &entry;
    }
    return nullptr;
}

TEST(Diagnostics, KeepsTheSameCodeAtTheSamePlaceOnce) {
    Diagnostics d;
    d.report(500, {1, 2, 3, 2, 4}, "a", "h");
    d.report(500, {1, 2, 3, 2, 9}, "b", "h");
    d.report(501, {1, 2, 3, 2, 4}, "c", "h");
    d.report(500, {}, "without a place", "h");
    d.report(500, {}, "another one", "h");
    EXPECT_EQ(d.error_count(), 4U);
    EXPECT_EQ(d.sorted().size(), 4U);
}

TEST(Diagnostics, SortsByPlace) {
    Diagnostics d;
    d.report(501, {1, 9, 1, 9, 2}, "third", "h");
    d.report(500, {1, 2, 8, 2, 9}, "second", "h");
    d.report(503, {1, 2, 1, 2, 2}, "first", "h");
    const auto sorted = d.sorted();
    ASSERT_EQ(sorted.size(), 3U);
    EXPECT_EQ(sorted[0].message, "first");
    EXPECT_EQ(sorted[1].message, "second");
    EXPECT_EQ(sorted[2].message, "third");
}

TEST(Diagnostics, KeepsAtMostTheLimitAndCountsTheRest) {
    Diagnostics d({}, 5);
    for (std::uint32_t line = 1; line <= 20; line++) d.report(500, {1, line, 1, line, 2}, "m", "h");
    EXPECT_EQ(d.error_count(), 20U);
    EXPECT_EQ(d.sorted().size(), 5U);
    EXPECT_EQ(d.dropped(), 15U);
}

TEST(Diagnostics, CountsWhatItNoLongerTellsApart) {
    Diagnostics d({}, 1);
    for (std::uint32_t line = 1; line <= 200; line++) d.report(500, {1, line, 1, line, 2}, "m", "h");
    d.report(500, {1, 1, 1, 1, 2}, "the first again", "h");
    EXPECT_EQ(d.error_count(), 200U);
    EXPECT_EQ(d.sorted().size(), 1U);
}

TEST(Diagnostics, KeepsAnErrorBehindAnyNumberOfWarnings) {
    const CatalogEntry* warning = first_warning();
    ASSERT_TRUE(warning);
    Diagnostics d({}, 1);
    for (std::uint32_t line = 1; line <= 200; line++) d.report(warning->code, {1, line, 1, line, 2}, "m", "h");
    for (int i = 0; i < 2; i++) d.report(500, {1, 201, 1, 201, 2}, "twice", "h");
    EXPECT_TRUE(d.has_errors());
    EXPECT_EQ(d.error_count(), 1U);
    EXPECT_EQ(d.other_count(), 200U);
    ASSERT_EQ(d.sorted().size(), 2U);
    EXPECT_EQ(d.sorted()[1].message, "twice");
}

TEST(Diagnostics, WarningOptionsChooseTheSeverity) {
    const CatalogEntry* warning = first_warning();
    if (!warning) GTEST_SKIP() << "the catalogue has no warning";
    const std::string name(warning->name);
    const auto severity_with = [&](const WarningOptions& options) -> std::optional<Severity> {
        Diagnostics d(options);
        d.report(warning->code, {}, "m", "h");
        return d.sorted().empty() ? std::nullopt : std::optional(d.sorted()[0].severity);
    };
    EXPECT_EQ(severity_with({}), Severity::warning);
    EXPECT_EQ(severity_with({.all_errors = true, .enabled = {}, .errors = {}}), Severity::error);
    EXPECT_EQ(severity_with({.all_errors = true, .enabled = {}, .errors = {{name, false}}}), Severity::warning);
    EXPECT_EQ(severity_with({.all_errors = false, .enabled = {}, .errors = {{name, true}}}), Severity::error);
    EXPECT_EQ(severity_with({.all_errors = true, .enabled = {{name, false}}, .errors = {}}), std::nullopt);
}

TEST(Sources, GivesLinesWithoutTheirEnds) {
    Sources s;
    const FileId a = s.add("a", "one\r\ntwo\n\nfour");
    const FileId empty = s.add("b", "");
    EXPECT_EQ(s.name(a), "a");
    EXPECT_EQ(s.line(a, 1), "one");
    EXPECT_EQ(s.line(a, 2), "two");
    EXPECT_EQ(s.line(a, 3), "");
    EXPECT_EQ(s.line(a, 4), "four");
    EXPECT_EQ(s.line(a, 5), "");
    EXPECT_EQ(s.line(a, 0), "");
    EXPECT_EQ(s.line(empty, 1), "");
    EXPECT_EQ(s.line(0, 1), "");
    EXPECT_EQ(s.line(99, 1), "");
}

TEST(Sources, TextsStayWhereTheyAre) {
    Sources s;
    const FileId a = s.add("a", "x");  // short enough to live inside the string object
    const std::string_view text = s.text(a);
    for (int i = 0; i < 1000; i++) s.add("b", "y");
    EXPECT_EQ(s.text(a).data(), text.data());
    EXPECT_EQ(text, "x");
}

}  // namespace
}  // namespace chainio::diag
