// What programs have to find in the region when they start: which files and sockets to look at, and what to post. Kept
// beside a compiled spec, so that a program need not wait until the spec is loaded and the server is made.
#pragma once
#include <string>
#include <string_view>

#include "compiler/ir/ir.h"
#include "runtime/shim/protocol.h"

namespace chainio::shadow {

// Empty when a program of the spec has to wait: probes are attached before it starts, or no chain can run.
std::string launch_of(const ir::Module& module);
// Writes it into a region. False, with nothing written, when it was kept by another version.
bool launch_region(std::string_view launch, bool explain, shim::Region& region);

}  // namespace chainio::shadow
