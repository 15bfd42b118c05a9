// The hand-written scanner reads the tokens of the grammar's lexer rules.
#include "compiler/syntax/scanner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ChainLexer.h"

namespace chainio::syntax::test {
namespace {

struct Seen {
    std::size_t type;
    std::string text;
    bool operator==(const Seen&) const = default;
};
void PrintTo(const Seen& seen, std::ostream* out) { *out << seen.type << " `" << seen.text << "`"; }

std::vector<Seen> by_grammar(const std::string& text) {
    antlr4::ANTLRInputStream input(text);
    grammar::ChainLexer lexer(&input);
    lexer.removeErrorListeners();
    std::vector<Seen> out;
    for (const auto& token : lexer.getAllTokens()) {
        if (token->getChannel() == antlr4::Token::DEFAULT_CHANNEL && token->getType() != grammar::ChainLexer::BAD) {
            out.push_back({token->getType(), token->getText()});
        }
    }
    return out;
}

std::vector<Seen> by_hand(const std::string& text) {
    diag::Diagnostics diags;
    std::vector<Seen> out;
    const Scanned scanned = scan(1, text, nullptr, diags);
    for (const SyntaxToken& token : scanned.tokens) {
        if (token.type != antlr4::Token::EOF) out.push_back({token.type, std::string(token.text)});
    }
    return out;
}

TEST(Scanner, AgreesWithTheGrammarOnEveryWordAndOperator) {
    const auto& vocabulary = grammar::ChainLexer(nullptr).getVocabulary();
    std::size_t checked = 0;
    for (std::size_t type = 1; type <= vocabulary.getMaxTokenType(); ++type) {
        const std::string literal(vocabulary.getLiteralName(type));
        if (literal.empty()) continue;
        const std::string text = literal.substr(1, literal.size() - 2);
        EXPECT_EQ(by_hand(text), (std::vector<Seen>{{type, text}})) << text;
        EXPECT_EQ(by_hand(text + text), by_grammar(text + text)) << text;
        ++checked;
    }
    EXPECT_GT(checked, 100U);
}

TEST(Scanner, AgreesWithTheGrammarOnTheSpecsOfTheRepository) {
    std::size_t files = 0;
    for (const char* folder : {"/stdlib-chains", "/examples", "/tests/fuzz/seeds/fuzz_chain"}) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(CHAINIO_ROOT) + folder)) {
            if (entry.path().extension() != ".chain") continue;
            std::ifstream in(entry.path());
            std::stringstream text;
            text << in.rdbuf();
            EXPECT_EQ(by_hand(text.str()), by_grammar(text.str())) << entry.path();
            ++files;
        }
    }
    EXPECT_GT(files, 8U);
}

TEST(Scanner, AgreesWithTheGrammarOnOddTexts) {
    for (const char* text : {"0..n", "1.foo", "a..b", "_ _a __", "0x1g 12KiB 3_4", "\"a\\\"b\" \"\\\\\"", "a=>b->c>>=d",
                             "x#y\nz", "<<=>=!==", "@a$b"}) {
        EXPECT_EQ(by_hand(text), by_grammar(text)) << text;
    }
}

TEST(Scanner, ColumnsAreBytes) {
    diag::Diagnostics diags;
    const Scanned scanned = scan(1, "\"\xc3\xa9\" x\r\n\ty", nullptr, diags);
    ASSERT_EQ(scanned.tokens.size(), 4U);
    EXPECT_EQ(scanned.tokens[1].span.col, 6U);
    EXPECT_EQ(scanned.tokens[2].span.line, 2U);
    EXPECT_EQ(scanned.tokens[2].span.col, 2U);
    EXPECT_TRUE(scanned.tokens[2].first_on_line);
}

}  // namespace
}  // namespace chainio::syntax::test
