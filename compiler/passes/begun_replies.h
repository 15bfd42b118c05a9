// Which calls of a handler close the connection when their chain fails: of those whose `else` says so, the ones before
// which something may have been replied. What has not begun can still be answered by `on failure`.
#pragma once
#include "compiler/ir/ir.h"

namespace chainio::passes {

void close_begun_replies(ir::Program&);

}  // namespace chainio::passes
