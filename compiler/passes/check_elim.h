// Removes checks that cannot fail: ranges that a dominating check covers, conditions that were checked or branched on
// before.
#pragma once
#include "compiler/ir/artifact.h"

namespace chainio::passes {

void eliminate_checks(const ir::Module&, ir::Program&);

}  // namespace chainio::passes
