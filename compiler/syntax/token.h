// One token as the generated parser reads it, with its place.
#pragma once
#include <string>
#include <string_view>

#include "antlr4-runtime.h"
#include "compiler/diag/span.h"

namespace chainio::syntax {

class SyntaxToken final : public antlr4::Token {
  public:
    std::size_t type = 0;
    std::size_t index = 0;
    std::size_t offset = 0;  // first byte in the text
    std::string_view text;   // empty for tokens that the token pass made, and for EOF
    Span span;
    bool first_on_line = false;
    bool blank_before = false;  // an empty line before it
    bool broken = false;        // a string that is not closed, which is reported

    std::string getText() const override { return std::string(text); }
    std::size_t getType() const override { return type; }
    std::size_t getLine() const override { return span.line; }
    std::size_t getCharPositionInLine() const override { return span.col; }
    std::size_t getChannel() const override { return DEFAULT_CHANNEL; }
    std::size_t getTokenIndex() const override { return index; }
    std::size_t getStartIndex() const override { return offset; }
    std::size_t getStopIndex() const override { return offset + text.size(); }
    antlr4::TokenSource* getTokenSource() const override { return nullptr; }
    antlr4::CharStream* getInputStream() const override { return nullptr; }
    std::string toString() const override { return std::string(text); }
};

inline const SyntaxToken& as_token(const antlr4::Token* token) { return static_cast<const SyntaxToken&>(*token); }

}  // namespace chainio::syntax
