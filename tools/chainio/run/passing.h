// Signals that are sent to chainio reach the program. What one process has of it, since handlers know nothing else:
// handlers stay installed until the process ends, since the program's last moments are when they matter.
#pragma once
#include <atomic>
#include <cstdint>

#include "tools/chainio/run/signals.h"

namespace chainio::run {

// Before there is a child: nobody could ask after one whose end is ignored. Whether SIGCHLD was ignored.
bool watch_children();
// As before watch_children(), which returned this.
void leave_children(bool were_ignored);
// Whether a child has changed since it was asked last; children_may_have_changed() says so of itself.
bool children_changed();
void children_may_have_changed();
// When a child changes, 0 is stored there and whoever waits for that word is woken. Null: no longer.
void wake_at_changes(std::atomic<std::uint32_t>* word);

// From then on; before it, signals are blocked. `earlier`: those that were sent before there was a program, which are
// its own whoever sent them: the process itself before it became this program, or a terminal.
void pass_signals_to(int program, SignalSet earlier = 0);
// Those have come.
void earlier_signals_have_come();
// Those that are passed on, a bit each: they are not to be blocked, whatever was. The program has its own mask.
SignalSet passed_signals();
// What was ignored before is so again, for a program that this process is about to become. Signals are blocked.
void ignore_as_before();
// Before it is collected, so that its number is no other's.
void program_is_over();
// By a signal, when there was no program any more to send it on to.
bool asked_to_end();

// Stops this process by that signal, as the program has stopped, until it is continued.
void stop_by(int number);

}  // namespace chainio::run
