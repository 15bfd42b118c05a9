// The region of a preload library that is measured, with no server behind it.
#pragma once
#include <string>

#include "runtime/shim/protocol.h"

namespace chainio::bench_shim {

// Classes `*.idx` and `/var/lib/other/*.dat`, sockets of TCP port 1 and UDP port 2; nullptr when there is no room.
shim::Region* make_region(const std::string& path);

}  // namespace chainio::bench_shim
