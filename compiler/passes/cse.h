// Common-subexpression elimination where one computation dominates the other. Blocks never change during a run, so
// their loads and varints count as computations of their offsets; loads of the state count until the next store.
#pragma once
#include "compiler/ir/artifact.h"

namespace chainio::passes {

void eliminate_common(const ir::Module&, ir::Program&);

}  // namespace chainio::passes
