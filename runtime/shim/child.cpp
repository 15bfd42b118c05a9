#include "runtime/shim/child.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>

#include "runtime/shim/next.h"
#include "runtime/shim/raw.h"
#include "runtime/shim/rewrite.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"
#include "runtime/shim/without_signals.h"

namespace chainio::shim {
namespace {

constinit std::atomic<bool> only_own{false};  // own_descriptors_only(); children of fork keep to it

struct Task {
    Work work;
    void* argument;
};

int run(void* task) {
    const auto& [work, argument] = *static_cast<const Task*>(task);
    raw_call(SYS_exit_group, work(argument));
    return 0;
}

// Of the thread that has called unshare(CLONE_NEWPID) the next child is the first process of a PID namespace, and
// nothing can be started in that one any more once it has ended. The kernel shows the namespace of a thread's children
// from its first process on. Where there is no /proc, it may be that.
bool would_be_the_first() {
    struct stat status;
    return failed(raw_call(SYS_newfstatat, AT_FDCWD, word("/proc/thread-self/ns/pid_for_children"), word(&status), 0));
}

}  // namespace

// Without a signal for its end it is no child that the program's own waits find, unless they ask for all kinds.
int ask_child(Work work, void* argument, void* end_of_stack, int flags) {
    if (would_be_the_first()) return -1;
    Task task{work, argument};
    const WithoutSignals while_it_runs;
    using Clone = int (*)(int (*)(void*), void*, int, void*, ...);
    const auto clone_next = reinterpret_cast<Clone>(next_function(Name::clone));
    const int error = errno;  // which clone sets where there may be no more processes, or a filter refuses it
    const long child = clone_next(run, end_of_stack, flags | CLONE_VFORK, &task);
    errno = error;
    int status = -1;
    if (child <= 0 || raw_call(SYS_wait4, child, word(&status), __WALL, 0) != child || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

void own_descriptors_only() { only_own.store(true, std::memory_order_relaxed); }

bool is_alone() { return has_one_thread() && !catching() && !only_own.load(std::memory_order_relaxed); }

int ask_apart(Work work, void* argument) {
    if (is_alone()) {
        const WithoutSignals no_handler_finds_its_descriptors;
        return work(argument);
    }
    constexpr long kStack = 32 * 1024;  // which the program's own stack may not have room for
    const long stack = raw_call(SYS_mmap, 0, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (failed(stack)) return -1;
    const int answer = ask_child(work, argument, reinterpret_cast<void*>(stack + kStack), CLONE_VM);
    raw_call(SYS_munmap, stack, kStack);
    return answer;
}

}  // namespace chainio::shim
