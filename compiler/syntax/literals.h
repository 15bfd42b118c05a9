// Literals of the language: integers with units, strings with escapes.
#pragma once
#include <string>
#include <string_view>

#include "compiler/ast/ast.h"
#include "compiler/diag/diag.h"

namespace chainio::syntax {

// Both report what is wrong and give a usable value all the same. `span` is that of the token.
ast::IntLit read_int(std::string_view text, Span span, diag::Diagnostics& diags);
std::string read_string(std::string_view text, Span span, diag::Diagnostics& diags);

bool is_unit(std::string_view word);

// Whether all of it is printable text of UTF-8.
bool is_plain_text(std::string_view value);
// The string as a literal of the language, quotes included.
std::string quote_string(std::string_view value);

}  // namespace chainio::syntax
