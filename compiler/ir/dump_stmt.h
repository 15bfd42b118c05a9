// The text of statements; dump() of artifact.h is the whole module.
#pragma once
#include <string>

#include "compiler/ir/ir.h"

namespace chainio::ir {

// Appends the body, one statement a line, indented by `depth` levels of two spaces.
void dump_body(const Module&, const Program&, const Body&, std::size_t depth, std::string& out);
std::string quoted(std::string_view bytes);  // "…" with \xHH for what is not printable ASCII

}  // namespace chainio::ir
