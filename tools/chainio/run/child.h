// The program as a child: same process group, same terminal, same descriptors; signals that are sent to chainio reach
// it.
#pragma once
#include <csignal>
#include <expected>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/chainio/run/signals.h"
#include "tools/chainio/run/spawn.h"

namespace chainio::run {

struct Ended {
    int code = 0;
    int signal = 0;  // not 0: it died of this one
};

// Why the program cannot be a child of this process: it would be in another PID namespace than as this process, or
// nobody would hear that it has ended. Empty where it can. To be asked before there is a child.
std::string cannot_be_parent();

// One in a process.
class Child {
  public:
    // With `whole_tree`, orphans of the program become children of this process, and ended() waits for them as well.
    // `before` is spawn()'s. The error is an errno.
    static std::expected<Child, int> start(const Start& what, bool whole_tree,
                                           const std::function<void()>& before = {});

    // A program that this process has started before it executed itself anew; `signals` are to be blocked from then on,
    // and `earlier` is what earlier() was.
    static Child adopt(int pid, SignalSet signals, bool whole_tree, std::vector<int> earlier);
    int pid() const { return pid_; }
    // Children that this process had before it, which are not waited for.
    const std::vector<int>& earlier() const { return earlier_; }

    // These two stop this process when the program has stopped, and return when both go on.
    // Whether a child has ended: the program, or with `whole_tree` any. Nothing is collected, so that adopt() finds it.
    bool any_over() const;
    // Whether all that was waited for has ended. Quick as long as no child has changed.
    bool ended();
    void wait();  // until ended()
    // Until ended(), or until the descriptor can be read: then it is false.
    bool wait_or_read(int descriptor);
    // Of the program itself.
    const Ended& how() const { return how_; }

  private:
    Child(int pid, bool whole_tree, std::vector<int> earlier)
        : pid_(pid), whole_tree_(whole_tree), earlier_(std::move(earlier)) {}
    int look(siginfo_t& info) const;
    void follow_stops() const;
    // The first process of a container is the parent of all whose own has ended.
    void collect_orphans() const;
    bool collect();
    bool only_earlier_left() const;

    int pid_;
    bool whole_tree_;
    std::vector<int> earlier_;
    bool program_ended_ = false, all_ended_ = false;
    Ended how_;
};

// Ends this process as the program ended.
[[noreturn]] void end_like(const Ended& how);

// What the program was given is the program's alone from then on: standard input and output become /dev/null here, and
// whatever else was inherited is closed. A pipe ends when the program closes its end of it.
void let_go_of_descriptors();

// Closed standard descriptors are held by files that the program does not inherit, so that no file of ours gets their
// numbers.
void guard_standard_descriptors();

}  // namespace chainio::run
