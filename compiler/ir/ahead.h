// Which calls of a handler can be made before it gets to them.
#pragma once
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::ir {

// The calls in a loop that every further round makes again, whatever the calls of the rounds before it gave: neither
// their arguments nor whether the loop goes on depends on that. A check that fails ends the handler all the same.
std::vector<const CallChain*> calls_ahead(const Program& program);

}  // namespace chainio::ir
