// Random modules that validate() accepts: every operation, nested control flow, values that are used in the wrong
// places.
#pragma once
#include "compiler/ir/artifact.h"
#include "tests/support/cases.h"

namespace chainio::tests {

// `size` is roughly the number of statements of each program.
ir::Artifact random_artifact(Random&, std::uint32_t size);

}  // namespace chainio::tests
