#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/chainio/start/arguments.h"

namespace chainio::start {
namespace {

std::optional<Arguments> understood(std::vector<const char*> words) { return understand(words); }

using Words = std::vector<std::string>;

TEST(Arguments, WhatAProgramIsStartedBy) {
    const auto all =
        understood({"chainio", "run", "--spec", "std/sqlite.chain", "-D", "A=1", "--param=B=2", "-DC=3", "-I", "one",
                    "-Itwo", "--library=/x.so", "--follow", "--explain", "--", "sqlite3", "--", "--spec", ""});
    ASSERT_TRUE(all);
    EXPECT_EQ(all->spec.name, "std/sqlite.chain");
    EXPECT_EQ(all->spec.params, (Words{"A=1", "B=2", "C=3"}));
    EXPECT_EQ(all->spec.include_dirs, (Words{"one", "two"}));
    EXPECT_EQ(all->library, "/x.so");
    EXPECT_TRUE(all->follow && all->explain);
    EXPECT_EQ(all->words, (Words{"sqlite3", "--", "--spec", ""}));
}

TEST(Arguments, ARunIsSilentWhenNothingIsToBeSaidOfIt) {
    EXPECT_FALSE(understood({"chainio", "run", "--spec", "a", "--", "true"})->silent);
    EXPECT_TRUE(understood({"chainio", "run", "--spec", "a", "--quiet", "--json", "--no-gate", "--", "true"})->silent);
    EXPECT_FALSE(understood({"chainio", "run", "--spec=a", "--quiet", "--summary", "s.json", "--", "true"})->silent);
}

TEST(Arguments, EverythingElseIsForTheWholeProgram) {
    const std::vector<std::vector<const char*>> others{
        {"chainio"},
        {"chainio", "--version"},
        {"chainio", "top"},
        {"chainio", "call", "--spec", "a", "--", "true"},
        {"chainio", "run"},
        {"chainio", "run", "--help"},
        {"chainio", "run", "--spec", "a", "true"},
        {"chainio", "run", "--spec", "a"},
        {"chainio", "run", "--spec", "a", "--"},
        {"chainio", "run", "--", "true"},
        {"chainio", "run", "--spec", "--", "true"},
        {"chainio", "run", "--spec", "", "--", "true"},
        {"chainio", "run", "--spec=", "--", "true"},
        {"chainio", "run", "--spec", "a", "--spec", "b", "--", "true"},
        {"chainio", "run", "--specs", "a", "--", "true"},
        {"chainio", "run", "--spec", "a", "-D", "-x", "--", "true"},
        {"chainio", "run", "--spec", "a", "-D=A=1", "--", "true"},
        {"chainio", "run", "--spec", "a", "--strict", "--", "true"},
        {"chainio", "run", "--spec", "a", "--no-cache", "--", "true"},
        {"chainio", "run", "--spec", "a", "--in-flight", "8", "--", "true"},
        {"chainio", "run", "--spec", "a", "--quie", "--", "true"},
        {"chainio", "run", "--spec", "/dev/fd/9", "--", "true"},
        {"chainio", "run", "--spec", "/proc/self/fd/9", "--", "true"},
        {"chainio", "run", "--spec", "a", "-I", "/dev/fd/9", "--", "true"},
        {"chainio", "run", "--spec", "a", "--summary", "/dev/stdout", "--", "true"},
    };
    for (const auto& words : others) {
        std::string line;
        for (const char* word : words) line += std::string(word) + " ";
        EXPECT_FALSE(understand(words)) << line;
    }
}

}  // namespace
}  // namespace chainio::start
