#include "compiler/syntax/meant.h"

#include <string_view>
#include <vector>

#include "compiler/syntax/characters.h"
#include "compiler/syntax/grammar.h"
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

}  // namespace

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
