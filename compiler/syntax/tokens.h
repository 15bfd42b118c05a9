// The pass over the tokens between the scanner and the generated parser; grammar/Chain.g4 lists what it marks.
#pragma once
#include <cstdint>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/syntax/scanner.h"

namespace chainio::syntax {

constexpr std::size_t max_nesting = 256;
constexpr std::size_t max_text = std::size_t{4} << 20U;

// Makes the braces balanced, reporting each that is missing or too many, and bounds the nesting of all brackets before
// the parser recurses on it: when they are nested deeper, that is reported, only EOF is left, and the answer is false.
// `nested`: levels around the text that count as well.
bool balance(std::vector<SyntaxToken>& tokens, diag::Diagnostics& diags, std::size_t nested = 0);

// What a text is: of the YAML form each is a part of a declaration, in which some words mean something at the begin.
enum class TextKind : std::uint8_t { file, value, stmt, padding };

// Puts in IN_SET, LENGTH, BOUND, RETURN_BARE, PART, END, RESULT and makes words after a dot IDENT; numbers the tokens.
// Applying it to its own result changes nothing.
void mark(std::vector<SyntaxToken>& tokens, TextKind kind = TextKind::file);

// Whether a declaration may begin with this token.
bool begins_item(const std::vector<SyntaxToken>& tokens, std::size_t at);
// Whether it is a reserved word that begins a statement.
bool begins_reserved_stmt(std::size_t type);

}  // namespace chainio::syntax
