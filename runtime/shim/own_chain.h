// Chains that the program's own thread runs when a socket is ready, and whose files it tells the kernel to read: nobody
// has to be woken for it, and what one wake-up of the program brings reaches the disk together. Whatever could keep the
// thread waiting, or could be seen by the program, is left to the server.
#pragma once
#include <cstddef>

#include "runtime/shim/protocol.h"
#include "runtime/shim/table.h"

namespace chainio::shim {

// Takes the chains' code into the process, once, by the library's constructor: while the program still has the right to
// read it, and while nobody holds the dynamic loader's lock.
void load_steps(Region& region, const char* region_path);

// Whether the socket's chain is one for run_own(). Not counted as left where it is none.
bool runs_itself(const Region& region, const Slot& slot);
// Shows the chain a request of a socket for which runs_itself() holds. False: the server is to be told of it, which has
// been counted (Stats::left).
bool run_own(Region& region, const Slot& slot, const void* request, std::size_t bytes);
// Whether some socket's chain is one for run_own() just now.
bool helps_itself();
// The program has come back from a wait: what was begun before it has read, or never will.
void begin_anew();

}  // namespace chainio::shim
