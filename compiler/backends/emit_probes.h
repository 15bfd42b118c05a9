// BPF programs of a spec's probes.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::backends {

std::string probe_texts(const ir::Module&);                  // empty without probes
std::vector<std::string> probe_programs(const ir::Module&);  // the names of the programs in it

}  // namespace chainio::backends
