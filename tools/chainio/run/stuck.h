// Where a process is that does not come back from the kernel.
#pragma once
#include <string>

namespace chainio::run {

// The system call of its that has not returned, and the file that it is about, as far as the kernel says:
// "fstat of /mnt/a.idx". Of a child of this process.
std::string call_of(int process);

}  // namespace chainio::run
