#include <gtest/gtest.h>

#include "tests/unit/syntax/read.h"

namespace chainio::syntax::test {
namespace {

// How the expression groups, as the tree shows it.
std::string grouped(const std::string& expr) {
    const auto got = read_chain("const C = " + expr + "\n");
    EXPECT_EQ(got->errors(), "") << got->rendered();
    std::string dump = dump_ast(*got->file);
    const std::size_t begin = dump.find(" = ") + 3;
    return dump.substr(begin, dump.rfind(" @") - begin);
}

TEST(Expr, BinaryOperatorsBindAsTheGrammarSays) {
    EXPECT_EQ(grouped("a + b * c"), "(+ a (* b c))");
    EXPECT_EQ(grouped("a - b - c"), "(- (- a b) c)");
    EXPECT_EQ(grouped("a << b + c"), "(<< a (+ b c))");
    EXPECT_EQ(grouped("a & b << c"), "(& a (<< b c))");
    EXPECT_EQ(grouped("a | b ^ c & d"), "(| a (^ b (& c d)))");
    EXPECT_EQ(grouped("a == b < c"), "(== a (< b c))");
    EXPECT_EQ(grouped("a || b && c == d"), "(|| a (&& b (== c d)))");
    EXPECT_EQ(grouped("(a + b) * c"), "(* (+ a b) c)");
}

TEST(Expr, SetTestsStandBetweenComparisonAndAnd) {
    EXPECT_EQ(grouped("a == b in (c, d) && e"), "(&& (in (== a b) c d) e)");
    EXPECT_EQ(grouped("a && b in (c)"), "(&& a (in b c))");
}

TEST(Expr, PrefixAndCast) {
    EXPECT_EQ(grouped("-a.b as u8 * c"), "(* (as (neg (. a b)) u8) c)");
    EXPECT_EQ(grouped("!a == ~b"), "(== (! a) (~ b))");
    EXPECT_EQ(grouped("- - a"), "(neg (neg a))");
}

TEST(Expr, ConditionsGroupToTheRight) {
    EXPECT_EQ(grouped("a ? b : c ? d : e"), "(? a b (? c d e))");
    EXPECT_EQ(grouped("a ? (b ? c : d) : e"), "(? a (? b c d) e)");
    EXPECT_EQ(grouped("a || b ? c + d : e"), "(? (|| a b) (+ c d) e)");
}

TEST(Expr, CallsSlicesAndArguments) {
    EXPECT_EQ(grouped("a.f(x, max 4)[1..n].g()"), "(call (slice (call a .f x (max 4)) 1 n) .g)");
    EXPECT_EQ(grouped("b[..]"), "(slice b - -)");
    EXPECT_EQ(grouped("b[..n]"), "(slice b - n)");
    EXPECT_EQ(grouped("b[n..]"), "(slice b n -)");
    EXPECT_EQ(grouped("a.find(k by c => c.as(R).key)"), "(call a .find (by k (=> c (. (call c .as R) key))))");
    EXPECT_EQ(grouped("a.find(k by R.key)"), "(call a .find (by k (. R key)))");
    EXPECT_EQ(grouped("a.filter(r => r.x > 1)"), "(call a .filter (=> r (> (. r x) 1)))");
}

TEST(Expr, MaxIsAFunctionAMethodAndABound) {
    EXPECT_EQ(grouped("max(a, b)"), "(call max a b)");
    EXPECT_EQ(grouped("f(max(a, b))"), "(call f (call max a b))");
    EXPECT_EQ(grouped("f(max (n + 1))"), "(call f (max (+ n 1)))");
    EXPECT_EQ(grouped("a.max(r => r.x)"), "(call a .max (=> r (. r x)))");
    EXPECT_EQ(grouped("f(max, max + 1)"), "(call f max (+ max 1))");
}

TEST(Expr, WordsOfTheLanguageAreMembers) {
    EXPECT_EQ(grouped("r.block(n, 64)"), "(call r .block n 64)");
    EXPECT_EQ(grouped("r.next + r.in + r.match"), "(+ (+ (. r next) (. r in)) (. r match))");
}

}  // namespace
}  // namespace chainio::syntax::test
