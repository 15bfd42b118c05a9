// Work for a child process that ends at once. It has descriptors of its own: what it opens and closes ends no record
// lock of the program, which any close of the process would that holds it, and meets no other thread's descriptors.
#pragma once

namespace chainio::shim {

// Runs in the child, on its stack, and only calls the kernel. What it returns is the answer: 0 to 255.
using Work = int (*)(void* argument);

// The caller waits for it, and is sent no signal when it ends. `flags`: those of clone, CLONE_VM or none. -1: there is
// no answer, since no child could be made, the program's next one has to be its own, or it was ended.
int ask_child(Work work, void* argument, void* end_of_stack, int flags);

}  // namespace chainio::shim
