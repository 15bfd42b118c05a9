// What was meant by a word that does not fit and is nearly one of the language, as a hint.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/syntax/failure.h"

namespace chainio::syntax {

// A word that begins a statement, or what else stands among them, and is nearly one of those that do.
std::optional<std::string> meant_statement(const Failure& f, const SyntaxToken& before);

// A word that is nearly one of those that may stand here, where no name may.
std::optional<std::string> meant_word(const Failure& f, const SyntaxToken& token);

// What others write at the failure, and what stands for it here.
std::optional<std::string> meant_otherwise(const Failure& f, const std::vector<SyntaxToken>& tokens);

// The same of a word that would begin a declaration.
std::optional<std::string> meant_declaration(const SyntaxToken& token, const SyntaxToken& before);

}  // namespace chainio::syntax
