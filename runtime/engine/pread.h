// One pread, counted; shared by the back ends.
#pragma once
#include "runtime/engine/backend.h"

namespace chainio::engine {

std::int32_t pread_now(int fd, const ReadOp& op, bool only_cached, metrics::EngineCounters& counters);

}  // namespace chainio::engine
