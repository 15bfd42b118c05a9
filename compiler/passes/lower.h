// Checked AST to Chain IR.
#pragma once
#include "compiler/ir/ir.h"
#include "compiler/sema/checked.h"

namespace chainio::passes {

ir::Module lower(const checked::Module&);

// The IR passes in their order, each in its own pair of files: constant folding, check elimination, dead code …
void run_passes(ir::Module&);

}  // namespace chainio::passes
