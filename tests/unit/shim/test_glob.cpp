#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "runtime/shim/glob.h"
#include "runtime/shim/protocol.h"
#include "tests/support/properties.h"

namespace {

using chainio::shim::glob_matches;

// What glob.h says, written without any thought of cost: every way to split the text is tried.
struct Naive {
    std::string_view pattern;

    static char member(std::string_view set, std::size_t& at) {
        if (set[at] == '\\' && at + 1 < set.size()) ++at;
        return set[at++];
    }
    static bool in_set(std::string_view set, char c) {
        bool found = false;
        for (std::size_t at = 0; at < set.size();) {
            const char low = member(set, at);
            char high = low;
            if (at + 1 < set.size() && set[at] == '-') high = member(set, ++at);
            found |= static_cast<unsigned char>(low) <= static_cast<unsigned char>(c) &&
                     static_cast<unsigned char>(c) <= static_cast<unsigned char>(high);
        }
        return found;
    }
    // The end of the set that begins at `at`, without its ']'; npos when it has none.
    std::size_t set_end(std::size_t at) const {
        for (bool first = true; at < pattern.size(); ++at, first = false) {
            if (pattern[at] == ']' && !first) return at;
            if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
        }
        return std::string_view::npos;
    }
    bool from(std::size_t at, std::string_view text) const {
        if (at == pattern.size()) return text.empty();
        if (pattern[at] == '*') {
            std::size_t behind = at;
            while (behind < pattern.size() && pattern[behind] == '*') ++behind;
            for (std::size_t taken = 0;; ++taken) {
                if (from(behind, text.substr(taken))) return true;
                if (taken == text.size() || (behind - at == 1 && text[taken] == '/')) return false;
            }
        }
        if (text.empty()) return false;
        if (pattern[at] == '?') return text[0] != '/' && from(at + 1, text.substr(1));
        if (pattern[at] == '[') {
            const bool inverted = at + 1 < pattern.size() && pattern[at + 1] == '!';
            const std::size_t begin = at + 1 + (inverted ? 1 : 0), end = set_end(begin);
            if (end != std::string_view::npos)
                return text[0] != '/' && in_set(pattern.substr(begin, end - begin), text[0]) != inverted &&
                       from(end + 1, text.substr(1));
        }
        if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
        return pattern[at] == text[0] && from(at + 1, text.substr(1));
    }
    bool matches(std::string_view path) const {
        if (pattern.find('/') == std::string_view::npos) path = path.substr(path.rfind('/') + 1);
        return from(0, path);
    }
};

TEST(Glob, MeansWhatItsHeaderSays) {
    struct {
        const char *pattern, *path;
        bool matches;
    } const cases[] = {
        {"*.idx", "/var/lib/a.idx", true},
        {"*.idx", "/var/a.idx/b", false},
        {"*.idx", "a.idx", true},
        {"*.idx", ".idx", true},
        {"/a/*.idx", "/a/b.idx", true},
        {"/a/*.idx", "/a/b/c.idx", false},
        {"/a/**.idx", "/a/b/c.idx", true},
        {"/a/**/c", "/a/b/d/c", true},
        {"/a/**/c", "/a/c", false},
        {"/a/**", "/a/b/c", true},
        {"/a/**", "/a/", true},
        {"/a/**", "/a", false},
        {"/a/*", "/a/b/c", false},
        {"/a/*b", "/a/b", true},
        {"/a/*bb", "/a/b", false},
        {"/a/?", "/a//", false},
        {"/a/?/c", "/a/b/c", true},
        {"x[0-9]", "x5", true},
        {"x[0-9]", "xa", false},
        {"x[!0-9]", "xa", true},
        {"x[]a]", "x]", true},
        {"/[!x]b", "//b", false},
        {"a\\*", "a*", true},
        {"a\\*", "ab", false},
        {"x[0-9", "x[0-9", true},
        {"a\\", "a\\", true},
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"db", "/x/db", true},
        {"x/db", "/x/db", false},
        {"**/db", "/x/y/db", true},
        {"*a*b*c*", "/q/xaxbxcx", true},
        {"[a\\]b]", "]", true},
        {"[a-]", "-", true},
        {"\xc3*", "\xc3\xa9", true},
    };
    for (const auto& one : cases)
        EXPECT_EQ(glob_matches(one.pattern, one.path), one.matches) << one.pattern << " and " << one.path;
}

TEST(Glob, AgreesWithTheNaiveOne) {
    const auto text = [](const char* alphabet) {
        return rc::gen::container<std::string>(rc::gen::elementOf(std::string(alphabet)));
    };
    int matched = 0;
    const auto many = [](auto property) {
        return rc::check([&] {
            for (int i = 0; i < 100; ++i) property();
        });
    };
    EXPECT_TRUE(many([&] {
        const std::string pattern = *rc::gen::resize(10, text("ab/*?*[]!-\\"));
        const std::string path = *rc::gen::resize(12, text("ab/-]a"));
        const bool wanted = Naive{pattern}.matches(path);
        matched += wanted ? 1 : 0;
        RC_ASSERT(glob_matches(pattern.c_str(), path.c_str()) == wanted);
    }));
    EXPECT_TRUE(many([&] {
        const std::string pattern = *rc::gen::resize(6, text("ab/**"));
        const std::string path = *rc::gen::resize(8, text("ab/"));
        RC_ASSERT(glob_matches(pattern.c_str(), path.c_str()) == Naive{pattern}.matches(path));
    }));
    // Patterns made from their path by widening it do match, so both answers are compared often.
    EXPECT_TRUE(many([&] {
        const std::string path = *rc::gen::resize(12, text("abc/"));
        std::string pattern;
        for (const char c : path) {
            switch (*rc::gen::inRange(0, 5)) {
                case 0: pattern += c == '/' ? "**" : "*"; break;
                case 1: pattern += c == '/' ? "/" : "?"; break;
                case 2: pattern += c == '/' ? std::string("/") : std::string("[a-c]"); break;
                case 3: pattern += std::string("\\") + c; break;
                default: pattern += c;
            }
        }
        matched += Naive{pattern}.matches(path) ? 1 : 0;
        RC_ASSERT(glob_matches(pattern.c_str(), path.c_str()) == Naive{pattern}.matches(path));
    }));
    EXPECT_GT(matched, 2000);
}

TEST(Glob, PatternsOfAnyLengthEnd) {
    const std::string most(chainio::shim::kMaxPattern - 1, 'a'), more(chainio::shim::kMaxPattern, 'a');
    EXPECT_TRUE(glob_matches(most.c_str(), most.c_str()));
    EXPECT_FALSE(glob_matches(more.c_str(), more.c_str()));
    // Backtracking would take longer than anyone waits.
    std::string stars;
    for (int i = 0; i < 120; ++i) stars += "**a";
    const std::string path = std::string(4000, 'a') + "b";
    EXPECT_FALSE(glob_matches((stars + "/").c_str(), path.c_str()));
    EXPECT_TRUE(glob_matches((stars + "*").c_str(), path.c_str()));
}

}  // namespace
