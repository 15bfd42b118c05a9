// Checked AST to Chain IR.
#pragma once
#include <functional>

#include "compiler/ir/ir.h"
#include "compiler/sema/checked.h"

namespace chainio::passes {

ir::Module lower(const checked::Module&);

// The IR passes in their order, each in its own pair of files: constant folding, check elimination, dead code …
// `after`: called behind each of them, for the tests.
void run_passes(ir::Module&, const std::function<void()>& after = {});

}  // namespace chainio::passes
