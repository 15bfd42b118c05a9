// Constant folding and copy propagation: operations on constants become their results, copies are read at their source,
// branches and checks that are decided disappear.
#pragma once
#include "compiler/ir/artifact.h"

namespace chainio::passes {

void fold(const ir::Module&, ir::Program&);

}  // namespace chainio::passes
