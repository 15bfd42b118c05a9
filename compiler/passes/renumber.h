// Gives registers new, dense numbers; variables (registers with several assignments) that are never alive at once share
// one, as BPF programs keep them in a small array.
#pragma once
#include "compiler/ir/artifact.h"

namespace chainio::passes {

void renumber(const ir::Module&, ir::Program&);

}  // namespace chainio::passes
