#include "compiler/syntax/meant.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "compiler/syntax/characters.h"
#include "compiler/syntax/grammar.h"
#include "compiler/syntax/literals.h"
#include "compiler/syntax/scanner.h"

namespace chainio::syntax {
namespace {

// Words that may be left out: where one is misspelt, the parser expects what comes behind them.
std::vector<std::string> left_out(const Failure& f) {
    if (f.frames.empty()) return {};
    const std::size_t rule = f.frames.front().rule;
    if (rule == P::RuleChainDecl && f.expects(P::LBRACE)) return {"in", "hops"};
    if (rule == P::RuleStepDecl && f.expects(P::RPAREN)) return {"from", "at", "for", "in"};
    const bool is_body = rule == P::RuleBlock && f.frames.front().start == f.token && f.frames.size() > 1;
    if (is_body && f.frames[1].rule == P::RuleForStmt) return {"max"};
    if (!f.expects(P::RBRACE)) return {};
    switch (rule) {
        case P::RuleAppDecl: return {"match", "files", "socket", "class", "batch"};
        case P::RuleFilesDecl: return {"direct", "immutable", "no_read_ahead", "header", "root", "index", "cache"};
        case P::RuleClassDecl: return {"priority", "weight", "slo"};
        case P::RuleBatchDecl: return {"min", "max", "adapt"};
        case P::RuleServiceDecl: return {"request", "text", "cache", "on"};
        default: return {};
    }
}

std::optional<std::string> did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
    const auto near = diag::nearest(word, candidates);
    return near ? std::optional("did you mean " + in_ticks(*near) + "?") : std::nullopt;
}

std::string word_behind(const std::vector<SyntaxToken>& tokens, std::size_t at) {
    return at + 1 < tokens.size() ? std::string(tokens[at + 1].text) : std::string();
}

// `4 KiB`
std::optional<std::string> apart(const SyntaxToken& number, const SyntaxToken& unit) {
    if (number.type != P::INT || !is_unit(unit.text)) return std::nullopt;
    return "a unit stands right behind its number: " + in_ticks(std::string(number.text) + std::string(unit.text));
}

bool is_type(std::string_view word) {
    static constexpr std::array types = {"u8",  "u16", "u24", "u32", "u40", "u48", "u56", "u64", "i8",
                                         "i16", "i24", "i32", "i40", "i48", "i56", "i64", "bool"};
    return word == "bytes" || std::ranges::find(types, word) != types.end();
}

std::optional<std::string> meant_in_function(const SyntaxToken& token) {
    if (token.type == P::RETURN)
        return "the value of a function stands there without `return`: `fn name(a) { let b = a + 1  b * 2 }`";
    if (token.type == P::ASSIGN) return "a value without parameters is a constant: `const NAME = …`";
    return std::nullopt;
}

}  // namespace

std::optional<std::string> meant_otherwise(const Failure& f, const std::vector<SyntaxToken>& tokens) {
    static const SyntaxToken none;
    const SyntaxToken& token = tokens[f.token];
    const SyntaxToken& before = f.token > 0 ? tokens[f.token - 1] : none;
    const SyntaxToken& next = f.token + 1 < tokens.size() ? tokens[f.token + 1] : none;
    const std::size_t rule = f.frames.empty() ? P::RuleItem : f.frames.front().rule;
    if (auto unit = apart(before, token)) return unit;
    if (rule == P::RuleChainDecl && f.expects(P::LBRACE) && before.type == P::RPAREN && is_type(token.text))
        return "what a chain gives stands behind `->`: " + in_ticks("-> " + std::string(token.text));
    const bool of_slice = token.type == P::COLON || (token.type == P::ASSIGN && before.type == P::DOTDOT);
    if (of_slice && f.expects(P::RBRACK)) return "a slice is `b[lo..hi]`: from `lo` up to, and without, `hi`";
    const bool else_name = rule == P::RuleActStmt && f.token > 1 && tokens[f.token - 2].type == P::ELSE;
    if ((before.type == P::ELSE || else_name) && f.inside(P::RuleLetStmt))
        return "what ends the way stands behind `else`, such as `fail not_found`; another value is a variable: "
               "`var x = 0  when … as found { x = found }`";
    if (token.type == P::STATE && next.type == P::DOT)
        return "a variable of the state has its name alone: " + in_ticks(word_behind(tokens, f.token + 1) + " = …");
    if (token.type == P::ASSIGN && before.type == P::RBRACK && rule == P::RuleBlock)
        return "an element cannot be assigned: bytes are put together by `k.set(b)` and `k.append(b)`";
    if (before.text == "mut" && f.expects(P::ASSIGN))
        return "what changes is a variable: " + in_ticks("var " + std::string(token.text) + " = …");
    if (token.type == P::IF && rule == P::RuleRecordDecl)
        return "a field that is not always there says `when`: `name: type when condition`";
    if (token.type == P::IN && next.type == P::LBRACK) return "values stand in parentheses: `in (1, 2)`";
    if (token.type == P::DOTDOT && f.expects(P::RPAREN)) return "a range is two comparisons: `x >= lo && x < hi`";
    const bool of_values = std::ranges::any_of(f.frames, [&](const Failure::Frame& frame) {
        return frame.rule == P::RuleFieldMod && tokens[frame.start].type == P::IN;
    });
    if (of_values) return "each value has a name: `in { 1 leaf, 2 inner }`";
    if (f.inside(P::RuleFnDecl)) return meant_in_function(token);
    return std::nullopt;
}

std::optional<std::string> meant_declaration(const SyntaxToken& token, const SyntaxToken& before) {
    static constexpr std::array attributes = {"direct", "immutable", "no_read_ahead", "header",
                                              "root",   "index",     "cache"};
    if (before.type == P::STRING && std::ranges::find(attributes, token.text) != attributes.end())
        return "attributes of files stand in braces: " + in_ticks("{ " + std::string(token.text) + " }");
    return apart(before, token);
}

std::optional<std::string> meant_statement(const Failure& f, const SyntaxToken& before) {
    if (f.frames.empty() || f.frames.front().rule != P::RuleActStmt || f.frames.front().start + 1 != f.token)
        return std::nullopt;
    static const std::vector<std::string> starts = {"let",  "var",    "if",       "match", "for",      "when", "goto",
                                                    "next", "return", "fail",     "emit",  "prefetch", "mark", "reply",
                                                    "skip", "break",  "continue", "else",  "state",    "step", "done"};
    return did_you_mean(before.text, starts);
}

std::optional<std::string> meant_word(const Failure& f, const SyntaxToken& token) {
    if (token.type != P::IDENT || f.expects(P::IDENT)) return std::nullopt;
    std::vector<std::string> candidates = left_out(f);
    for (const std::string& word : words()) {
        if (f.expects(word_type(word))) candidates.push_back(word);
    }
    return did_you_mean(token.text, candidates);
}

}  // namespace chainio::syntax
