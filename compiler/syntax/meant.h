// What was meant by a word that does not fit and is nearly one of the language, as a hint.
#pragma once
#include <optional>
#include <string>

#include "compiler/syntax/failure.h"

namespace chainio::syntax {

// A word that begins a statement, or what else stands among them, and is nearly one of those that do.
std::optional<std::string> meant_statement(const Failure& f, const SyntaxToken& before);

// A word that is nearly one of those that may stand here, where no name may.
std::optional<std::string> meant_word(const Failure& f, const SyntaxToken& token);

}  // namespace chainio::syntax
