// What programs have to find in the region when they start: which files and sockets to look at, and what to post. Kept
// beside a compiled spec, so that a program need not wait until the spec is loaded and the server is made.
#pragma once
#include <string>
#include <string_view>

#include "runtime/shadow/launch_region.h"
#include "runtime/spec/loaded.h"

namespace chainio::shadow {

// Empty when a program of the spec has to wait: probes are attached before it starts, or a chain cannot run and is to
// be named. Every opening wakes whoever waits for the first.
std::string launch_of(const spec::Loaded& spec);

}  // namespace chainio::shadow
