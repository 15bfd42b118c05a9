// Whether requests can be taken off an interface here: tried on a pair of interfaces in a network namespace of its own.
#pragma once
#include "tools/chainio-runtime/check_system.h"

namespace chainio::runtime_tool {

SystemFact xdp_fact();

}  // namespace chainio::runtime_tool
