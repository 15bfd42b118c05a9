// Whether requests can be taken off an interface here: tried on a pair of interfaces in a network namespace of its own.
#pragma once
#include "tools/chainio-runtime/check_system.h"

namespace chainio::runtime_tool {

SystemFact xdp_fact();
// What services `via xdp` would have of an interface.
SystemFact interface_fact(const std::string& name);
// Which of the machine's interfaces have an XDP program already.
SystemFact programs_fact();

}  // namespace chainio::runtime_tool
