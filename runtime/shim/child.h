// Work that opens and closes descriptors, and must not be noticed by it. In a program of several threads a number that
// comes and goes is one that another thread may come upon: what that one puts there, the work would read and close.
//
// A child process that ends at once has descriptors of its own: what it opens and closes ends no record lock of the
// program, which any close of the process would that holds it, and meets no other thread's descriptors.
#pragma once

namespace chainio::shim {

// Calls the kernel, and nothing that takes a lock or keeps something; in a child, on its stack. What it returns is the
// answer: 0 to 255.
using Work = int (*)(void* argument);

// The caller waits for it, and is sent no signal when it ends. `flags`: those of clone, CLONE_VM or none. -1: there is
// no answer, since no child could be made, the program's next one has to be its own, or it was ended.
int ask_child(Work work, void* argument, void* end_of_stack, int flags);

// Whether nobody else has the thread's descriptors, as far as is known. Asked each time: threads come and go.
bool is_alone();

// Runs it without a child where the thread is alone, and else in one that shares its memory, so that what is mapped
// there is mapped here. Work that leaves answers in memory has to have written there beforehand that there is none: a
// tool that runs the program (Valgrind) may give the child a copy. No signal handler comes meanwhile. -1: as above.
int ask_apart(Work work, void* argument);

}  // namespace chainio::shim
