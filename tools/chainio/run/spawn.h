// How this process becomes the program, or starts it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tools/chainio/run/signals.h"
#include "tools/chainio/run/timers.h"

namespace chainio::run {

struct Start {
    std::string path;                      // of the executable
    std::vector<std::string> words;        // argv
    std::vector<std::string> environment;  // NAME=VALUE; all of it
};

// What the program finds as this process found it.
struct Inherited {
    SignalSet blocked;
    bool ignores_children;          // SIGCHLD is ignored
    bool collects_orphans = false;  // those of its descendants become its children
    int at_parents_end = 0;         // the signal that comes when its parent ends; 0: none
    Timers timers{};
};

// With all signals blocked. What the environment says is for this process (LISTEN_PID and the like) is for the
// program. Returns an errno when it cannot.
// `before`, if any, is done by this process when there is a child and before the program begins: what this process
// gives up, its child keeps.
int spawn(const Start& what, const Inherited& inherited, const std::function<void()>& before, int& pid);

// Replaces this process by the program. Returns an errno when it cannot.
int replace_by(const Start& what);

}  // namespace chainio::run
