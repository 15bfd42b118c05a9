// Leaving nothing behind when a signal ends the program while it has a folder of temporary files or runs others.
#pragma once
#include <spawn.h>
#include <sys/types.h>

#include <csignal>

namespace chainio::backends {

// While one lives, SIGINT, SIGTERM and SIGHUP end the children of start() and wait: when it goes, which is after what
// it is a member of has cleaned up, the program ends by the signal after all. Signals that are ignored stay so.
class Interruption {
  public:
    Interruption();
    ~Interruption();
    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;

    static bool asked();
    // posix_spawnp, with the child in a process group of its own. The result is an error number.
    static int start(pid_t& pid, const char* program, const posix_spawn_file_actions_t& actions, char* const* words,
                     char* const* environment);
    // Where a signal has come: tells a child of start() that was not waited for yet once more, and what it has started.
    // That has not heard of it where it was started with signals blocked, as shells and posix_spawn do.
    static void tell_again(pid_t pid);
    // waitpid: -1 with errno when there is no such child. Tells what a child that has ended leaves.
    static pid_t wait(pid_t pid, int& status);
};

}  // namespace chainio::backends
