// The generated parser's view of a vector of tokens.
#pragma once
#include <algorithm>
#include <vector>

#include "compiler/syntax/token.h"

namespace chainio::syntax {

class SyntaxTokenStream final : public antlr4::TokenStream {
  public:
    explicit SyntaxTokenStream(std::vector<SyntaxToken>& tokens) : tokens_(tokens) {}

    void consume() override {
        if (at_ + 1 < tokens_.size()) ++at_;
    }
    std::size_t LA(ssize_t i) override { return tokens_[position(i)].type; }
    antlr4::Token* LT(ssize_t i) override { return &tokens_[position(i)]; }
    antlr4::Token* get(std::size_t index) const override { return &tokens_[index]; }
    ssize_t mark() override { return 0; }
    void release(ssize_t) override {}
    std::size_t index() override { return at_; }
    void seek(std::size_t index) override { at_ = std::min(index, tokens_.size() - 1); }
    std::size_t size() override { return tokens_.size(); }
    std::string getSourceName() const override { return {}; }
    antlr4::TokenSource* getTokenSource() const override { return nullptr; }
    std::string getText(const antlr4::misc::Interval&) override { return {}; }
    std::string getText() override { return {}; }
    std::string getText(antlr4::RuleContext*) override { return {}; }
    std::string getText(antlr4::Token*, antlr4::Token*) override { return {}; }

  private:
    std::size_t position(ssize_t i) const {
        if (i < 0) return at_ < static_cast<std::size_t>(-i) ? 0 : at_ - static_cast<std::size_t>(-i);
        return std::min(at_ + static_cast<std::size_t>(i) - 1, tokens_.size() - 1);
    }

    std::vector<SyntaxToken>& tokens_;
    std::size_t at_ = 0;
};

}  // namespace chainio::syntax
