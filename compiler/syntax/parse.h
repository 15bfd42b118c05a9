// The two front ends and the printers.
#pragma once
#include <memory>
#include <string>

#include "compiler/ast/ast.h"
#include "compiler/diag/diag.h"

namespace chainio::syntax {

// Both always give a tree; where the text is wrong, the errors are reported and the tree holds what could be read, so
// that the semantic errors elsewhere are still found. Input is bounded (nesting 256 levels, 4 MiB); more is a
// diagnostic.
std::unique_ptr<ast::File> parse_chain(FileId, const diag::Sources&, diag::Diagnostics&);
std::unique_ptr<ast::File> parse_yaml(FileId, const diag::Sources&, diag::Diagnostics&);
// By the name's ending (.yaml, .yml; .chain) or, for other names, by content.
bool is_yaml(FileId, const diag::Sources&);
std::unique_ptr<ast::File> parse(FileId, const diag::Sources&, diag::Diagnostics&);

// The canonical form (--emit=chain); sets canonical_line in the statements, steps, chains and handlers of the tree.
// Comments and empty lines are not part of it, so that they never change an artifact and both forms of a spec have the
// same lines. Printing what was parsed from its own output gives the same text.
std::string print_chain(ast::File&);
// The canonical form with the user's comments and single empty lines kept: --fmt.
std::string format_chain(const ast::File&);
std::string print_yaml(const ast::File&);
std::string dump_ast(const ast::File&);  // --emit=ast

}  // namespace chainio::syntax
