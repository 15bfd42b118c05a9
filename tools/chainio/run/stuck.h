// Where a process is that does not come to an end.
#pragma once
#include <string>

namespace chainio::run {

// Why a server, which is a child of this process, was given up so long after the program's end: a signal has stopped
// it, it is at work, or a system call has not returned, with the file that it is about, as far as the kernel says:
// "fstat of /mnt/a.idx".
std::string given_up(int server, int milliseconds);

}  // namespace chainio::run
