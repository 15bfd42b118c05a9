#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/shim/endings.h"
#include "runtime/shim/glob.h"
#include "runtime/shim/protocol.h"
#include "tests/support/properties.h"

namespace {

using chainio::shim::Endings;
using chainio::shim::glob_matches;
using chainio::shim::Plan;

Endings learned(const std::vector<std::string>& patterns, bool all = false) {
    const auto plan = std::make_unique<Plan>();
    for (const std::string& pattern : patterns)
        pattern.copy(plan->classes[plan->class_count++].pattern, chainio::shim::kMaxPattern - 1);
    Endings endings;
    endings.learn(*plan, all);
    return endings;
}

TEST(Endings, RefusesWhatNoClassEndsIn) {
    const Endings endings = learned({"*.idx", "/var/lib/other/*.table", "/srv/exactly-this.dat"});
    for (const char* path : {"a.txt", "/a.txt", "idx", ".id", "x", "a.idy", "a.mdx", "/var/lib/other/.able", "that.dat",
                             "/srv/exactly-this.da", ""})
        EXPECT_FALSE(endings.may_match(path)) << path;
    for (const char* path : {"a.idx", ".idx", "/a/b/c.idx", "a.table", "exactly-this.dat", "../exactly-this.dat"})
        EXPECT_TRUE(endings.may_match(path)) << path;
}

TEST(Endings, RefusesNothingWhereAPatternMayEndInAnything) {
    for (const char* pattern : {"/srv/www/**", "/srv/*", "*.id?", "*.[a-z]", "*.\\*", "folder/"})
        EXPECT_TRUE(learned({"*.idx", pattern}).may_match("/etc/passwd")) << pattern;
    EXPECT_TRUE(learned({"*.idx"}, true).may_match("/etc/passwd"));
    EXPECT_FALSE(learned({}).may_match("/etc/passwd"));
    EXPECT_TRUE(Endings().may_match("/etc/passwd"));  // nothing is known yet
}

// Every length and every place in memory.
TEST(Endings, LooksAtTheLastBytesWhereverTheyLie) {
    const Endings some = learned({"*.a", "*.d"}), short_one = learned({"*d"}), none = learned({});
    for (std::size_t length = 1; length < 70; ++length)
        for (std::size_t skipped = 0; skipped < 32; ++skipped) {
            std::string text(skipped, 'd');
            text += std::string(length, '.');
            const char* path = text.c_str() + skipped;
            ASSERT_EQ(some.ends_well(path), length == 1);
            ASSERT_FALSE(some.may_match(path) || short_one.may_match(path));
            text.back() = 'd';
            ASSERT_TRUE(some.ends_well(path) && short_one.ends_well(path)) << length << " " << skipped;
            ASSERT_EQ(some.may_match(path), length > 1) << length << " " << skipped;
            ASSERT_TRUE(short_one.may_match(path));
            ASSERT_EQ(none.ends_well(path), length == 1);
            ASSERT_FALSE(none.may_match(path));
        }
    EXPECT_FALSE(some.may_match(""));
}

// Relative paths are compared as their last part alone.
TEST(Endings, NeverRefusesWhatAClassMatches) {
    const auto text = [](const std::string& of) { return rc::gen::container<std::string>(rc::gen::elementOf(of)); };
    unsigned matched = 0;
    EXPECT_TRUE(rc::check("what matches is never refused", [&] {
        for (int i = 0; i < 100; ++i) {
            const std::vector<std::string> begins = {"", "*", "**", "/*"};
            const std::string pattern = *rc::gen::elementOf(begins) + *rc::gen::resize(5, text("ab.*?[]!-\\/"));
            const std::string path = "/" + *rc::gen::resize(10, text("ab./"));
            if (!glob_matches(pattern.c_str(), path.c_str())) continue;
            ++matched;
            const Endings endings = learned({"unlikely", pattern});
            RC_ASSERT(endings.ends_well(path.c_str()) && endings.may_match(path.c_str()));
            const std::string part = path.substr(path.rfind('/') + 1);
            RC_ASSERT(part.empty() || endings.may_match(part.c_str()));
        }
    }));
    EXPECT_GT(matched, 500u);
}

}  // namespace
