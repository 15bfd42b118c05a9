// What the generated parser throws at the first token that does not fit, instead of repairing the input by itself.
#pragma once
#include <string>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/syntax/token.h"

namespace chainio::syntax {

struct Failure {
    struct Frame {  // a rule that was being read, innermost first
        std::size_t rule;
        std::size_t start;  // index of its first token
    };
    std::size_t token = 0;  // index of the one that does not fit
    antlr4::misc::IntervalSet expected;
    std::vector<Frame> frames;
    const antlr4::dfa::Vocabulary* vocabulary = nullptr;

    bool expects(std::size_t type) const { return expected.contains(static_cast<ssize_t>(type)); }
    bool inside(std::size_t rule) const;
};

class ThrowingStrategy final : public antlr4::ANTLRErrorStrategy {
  public:
    void reset(antlr4::Parser*) override {}
    antlr4::Token* recoverInline(antlr4::Parser* parser) override;
    void recover(antlr4::Parser* parser, std::exception_ptr) override;
    void sync(antlr4::Parser*) override {}
    bool inErrorRecoveryMode(antlr4::Parser*) override { return false; }
    void reportMatch(antlr4::Parser*) override {}
    void reportError(antlr4::Parser* parser, const antlr4::RecognitionException& error) override;
};

// Reports the failure in the user's words.
void report_failure(const Failure& failure, const std::vector<SyntaxToken>& tokens, diag::Diagnostics& diags);

// A token behind a text that was to be one thing.
void report_rest(const SyntaxToken& token, diag::Diagnostics& diags);

}  // namespace chainio::syntax
