// Chains that emit `bytes(N)`: any other length than N fails with `malformed`.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::passes {

// Compares what has been emitted with `length` at each end of the chain where it is not known to be that. `done` is
// null where the chain has none; whether it needs one, for what ends without a `return`, is the result.
bool compare_emitted(const std::vector<ir::Program*>& steps, ir::Program* done, std::uint32_t length);
// Such a `done`.
ir::Program comparing_done(std::string name, ir::Line line, std::uint32_t length);

}  // namespace chainio::passes
