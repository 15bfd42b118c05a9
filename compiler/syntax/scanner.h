// Text to tokens and comments: the lexer rules of grammar/Chain.g4, by hand, since a generated lexer takes longer to
// warm up than the whole compilation of a spec.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/syntax/token.h"

namespace chainio::syntax {

struct Comment {
    std::string text;  // without the '#', and without the blank that follows it
    std::size_t offset = 0;
    std::uint32_t line = 0;
    bool own_line = false;      // nothing but white space before it
    bool blank_before = false;  // an empty line before it
    bool taken = false;         // already attached to a part of the tree
};

struct Scanned {
    std::vector<SyntaxToken> tokens;  // ends with EOF
    std::vector<Comment> comments;
};

// `places`, when given, says where each byte of `text` (and its end) stands in the file: a text that is a part of a
// YAML document.
struct Place {
    std::uint32_t line = 1, col = 1;
};
Scanned scan(FileId file, std::string_view text, const std::vector<Place>* places, diag::Diagnostics& diags);

// The token type of a word of the language, or IDENT.
std::size_t word_type(std::string_view word);
// All words of the language, for "did you mean".
const std::vector<std::string>& words();

}  // namespace chainio::syntax
