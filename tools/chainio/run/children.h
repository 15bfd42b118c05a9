// Which children this process has: some may have been there before its program was executed.
#pragma once
#include <vector>

namespace chainio::run {

// Those whose end a wait for any child is told of, in order. None also where that is not to be found out: there is no
// /proc, it is another PID namespace's, or it hides processes.
std::vector<int> children();

}  // namespace chainio::run
