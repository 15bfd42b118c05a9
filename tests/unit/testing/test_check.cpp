// Every kind of expectation fails when it does not hold, and says why.
#include <gtest/gtest.h>

#include "tools/chainio/testing/check.h"

namespace chainio::testing {
namespace {

std::vector<std::string> compare(const Expected& expected, const Outcome& outcome) {
    Case test;
    test.expected = expected;
    return differences(test, outcome, ir::Module{});
}

Outcome bytes_outcome(Bytes bytes) {
    Outcome outcome;
    outcome.bytes = std::move(bytes);
    return outcome;
}

TEST(Check, ComparesOutcomesByName) {
    Outcome outcome;
    outcome.outcome = CIO_NOT_FOUND;
    EXPECT_EQ(compare({}, outcome), std::vector<std::string>{"outcome is not_found, expected ok"});
    EXPECT_TRUE(compare({.outcome = "not_found"}, outcome).empty());
}

TEST(Check, ComparesIntegers) {
    Outcome outcome;
    outcome.kind = ir::ResultKind::scalar;
    outcome.scalar = static_cast<std::uint64_t>(-5);
    EXPECT_TRUE(compare({.value = static_cast<std::uint64_t>(-5)}, outcome).empty());
    EXPECT_EQ(compare({.value = 5}, outcome), std::vector<std::string>{"value is -5, expected 5"});
    EXPECT_EQ(compare({.bytes = Bytes{1}}, outcome).size(), 1u) << "bytes of a chain that gives an integer";
    EXPECT_EQ(compare({.value = 1}, bytes_outcome({1})).size(), 1u) << "an integer of a chain that gives bytes";
}

TEST(Check, ComparesBytes) {
    const Outcome outcome = bytes_outcome({1, 0, 0, 0, 0, 0, 0, 0});
    EXPECT_TRUE(
        compare({.bytes = outcome.bytes, .starts_with = Bytes{1, 0}, .length = 8, .integers = {{1}}}, outcome).empty());
    EXPECT_EQ(
        compare({.bytes = Bytes{1, 2}}, outcome),
        std::vector<std::string>{"result is <01 00 00 00 00 00 00 00>, expected <01 02>; they differ from byte 1 on"});
    EXPECT_EQ(compare({.starts_with = Bytes{2}}, outcome).size(), 1u);
    EXPECT_EQ(compare({.starts_with = Bytes(9, 0)}, outcome).size(), 1u) << "longer than the result";
    EXPECT_EQ(compare({.length = 7}, outcome).size(), 1u);
    EXPECT_EQ(compare({.integers = {{2}}}, outcome).size(), 1u);
    EXPECT_EQ(compare({.integers = {{1, 0}}}, outcome).size(), 1u);
    EXPECT_EQ(compare({.integers = {{1}}}, bytes_outcome({1, 0, 0, 0, 0, 0, 0, 0, 9})).size(), 1u) << "a byte too many";
}

TEST(Check, ComparesReadsInOrder) {
    Outcome outcome;
    outcome.reads = {{"db", 0, 512}, {"db", 512, 512}};
    EXPECT_TRUE(
        compare({.reads = {{{"db", 0, 512}, {std::nullopt, 512, std::nullopt}}}, .read_count = 2, .most_reads = 2},
                outcome)
            .empty());
    EXPECT_EQ(compare({.reads = {{{"db", 512, 512}, {"db", 0, 512}}}}, outcome).size(), 2u);
    EXPECT_EQ(compare({.reads = {{{"log", 0, 512}, {"db", 512, 512}}}}, outcome).size(), 1u);
    EXPECT_FALSE(compare({.reads = {std::vector<ExpectedRead>{}}}, outcome).empty());
    EXPECT_EQ(compare({.read_count = 1}, outcome).size(), 1u);
    EXPECT_EQ(compare({.most_reads = 1}, outcome).size(), 1u);
    EXPECT_EQ(compare({.outcome = "malformed", .read_count = 2}, outcome).size(), 1u)
        << "reads count whatever the outcome";
}

TEST(Check, ComparesPrefetches) {
    Outcome outcome;
    outcome.prefetches = {{CIO_PREFETCH_CHAIN, "lookup", {}, 0, 0, {7}},
                          {CIO_PREFETCH_PATH, "docroot", {'/', 'a'}, 0, 0, {}},
                          {CIO_PREFETCH_SIBLING, "columns", {'.', 'b'}, 4, 8, {}},
                          {CIO_PREFETCH_SAME, "", {}, 1, 2, {}},
                          {CIO_PREFETCH_MARK, "", {}, 4096, 7, {}},
                          {CIO_PREFETCH_MARK_VIA, "owner", {}, 8192, 0, {3}}};
    std::vector<ExpectedPrefetch> wanted(6);
    wanted[0].chain = "lookup";
    wanted[0].args = {7};
    wanted[1].path = Bytes{'/', 'a'};
    wanted[2].sibling = ".b";
    wanted[2].at = 4;
    wanted[3].same = true;
    wanted[3].length = 2;
    wanted[4].mark = 7;
    wanted[4].at = 4096;
    wanted[5].mark_via = "owner";
    wanted[5].args = {3};
    EXPECT_TRUE(compare({.prefetches = wanted, .prefetch_count = 6}, outcome).empty());
    for (int changed = 0; changed < 6; changed++) {
        auto other = wanted;
        if (changed == 0) other[0].args = {8};
        if (changed == 1) other[1].path = Bytes{'/'};
        if (changed == 2) other[2].files = "marks";
        if (changed == 3) other[3].at = 0;
        if (changed == 4) other[4].mark = 8;
        if (changed == 5) other[5].mark_via = "lookup";
        EXPECT_EQ(compare({.prefetches = other}, outcome).size(), 1u) << changed;
    }
    EXPECT_EQ(compare({.prefetch_count = 3}, outcome).size(), 1u);
}

// The same name, asked for in another way.
TEST(Check, TellsKindsOfPrefetchesApart) {
    Outcome outcome;
    outcome.prefetches = {{CIO_PREFETCH_PATH, "docroot", {'/', 'a'}, 0, 0, {}},
                          {CIO_PREFETCH_SIBLING, "columns", {'.', 'b'}, 4, 8, {}}};
    std::vector<ExpectedPrefetch> others(8);
    others[0].chain = "docroot";
    others[1].sibling = "/a";
    others[2].path = Bytes{'.', 'b'};
    others[3].same = true;
    others[4].length = 9;
    others[5].args = {7};
    others[6].mark = 8;  // the sibling's length
    others[7].mark_via = "columns";
    for (std::size_t i = 0; i < others.size(); i++) {
        std::vector<ExpectedPrefetch> wanted(2);
        EXPECT_TRUE(compare({.prefetches = wanted}, outcome).empty());
        wanted[i < 2 ? 0 : 1] = others[i];
        EXPECT_EQ(compare({.prefetches = wanted}, outcome).size(), 1u) << i;
    }
}

TEST(Check, EnginesMustAgreeOnEverything) {
    Outcome first = bytes_outcome({1});
    first.reads = {{"db", 0, 1}};
    EXPECT_TRUE(disagreement(first, first, ir::Module{}).empty());
    Outcome second = first;
    second.reads[0].length = 2;
    EXPECT_EQ(disagreement(first, second, ir::Module{}).size(), 1u);
    second = first;
    second.bytes = {2};
    EXPECT_EQ(disagreement(first, second, ir::Module{}).size(), 1u);
    second = first;
    second.outcome = CIO_NOT_FOUND;
    EXPECT_EQ(disagreement(first, second, ir::Module{}).size(), 1u);
    second = first;
    second.scalar = 2;
    EXPECT_EQ(disagreement(first, second, ir::Module{}).size(), 1u);
    second = first;
    second.prefetches = {{CIO_PREFETCH_SAME, "", {}, 1, 2, {}}};
    EXPECT_EQ(disagreement(first, second, ir::Module{}).size(), 1u);
}

}  // namespace
}  // namespace chainio::testing
