// Dead code elimination: computations that nothing reads and that cannot fail, branches and loops with nothing in them.
#pragma once
#include "compiler/ir/artifact.h"

namespace chainio::passes {

void eliminate_dead(const ir::Module&, ir::Program&);

}  // namespace chainio::passes
