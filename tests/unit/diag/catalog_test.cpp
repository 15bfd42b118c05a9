#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "compiler/diag/diag.h"

namespace chainio::diag {
namespace {

TEST(Catalog, CodesAndNamesAreUnique) {
    std::set<int> codes;
    std::set<std::string_view> names;
    for (const CatalogEntry& entry : catalog()) {
        EXPECT_TRUE(codes.insert(entry.code).second) << entry.code;
        EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    }
}

TEST(Catalog, EveryEntryExplainsItself) {
    const std::regex kebab("[a-z0-9]+(-[a-z0-9]+)*");
    for (const CatalogEntry& entry : catalog()) {
        EXPECT_TRUE(std::regex_match(std::string(entry.name), kebab)) << entry.name;
        EXPECT_GT(entry.code, 0);
        EXPECT_LE(entry.code, 699);
        EXPECT_GE(entry.title.size(), 10U) << entry.name;
        EXPECT_LE(entry.title.size(), 100U) << entry.name;
        EXPECT_GE(entry.explain.size(), 80U) << entry.name;
    }
}

TEST(Catalog, IsFoundByEverySpelling) {
    const CatalogEntry* entry = find_entry(500);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(find_entry("CH0500"), entry);
    EXPECT_EQ(find_entry("ch500"), entry);
    EXPECT_EQ(find_entry("0500"), entry);
    EXPECT_EQ(find_entry(entry->name), entry);
    EXPECT_EQ(find_entry("CH0500x"), nullptr);
    EXPECT_EQ(find_entry(""), nullptr);
    EXPECT_EQ(find_entry("CH"), nullptr);
    EXPECT_EQ(find_entry(0), nullptr);
    EXPECT_EQ(find_entry("99999999999999999999"), nullptr);
}

TEST(Nearest, FindsTheLikelyWord) {
    const std::vector<std::string> words{"Node", "Leaf", "upper_bound", "lower_bound"};
    EXPECT_EQ(nearest("Nod", words), "Node");
    EXPECT_EQ(nearest("node", words), "Node");
    EXPECT_EQ(nearest("Ndoe", words), "Node");
    EXPECT_EQ(nearest("uper_bound", words), "upper_bound");
    EXPECT_EQ(nearest("xyzzy", words), std::nullopt);
    EXPECT_EQ(nearest("", words), std::nullopt);
    EXPECT_EQ(nearest(std::string(1000, 'a'), words), std::nullopt);
    EXPECT_EQ(nearest("ab", {"ac", "bb"}), "ac") << "ties go to the first in the alphabet";
}

}  // namespace
}  // namespace chainio::diag
