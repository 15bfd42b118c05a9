#include "tools/chainio/run/passing.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>

#include "tools/chainio/run/signals.h"

namespace chainio::run {
namespace {

std::atomic<pid_t> g_program{0};
std::atomic<bool> g_child_changed{false};
std::atomic<bool> g_asked_to_end{false};
std::atomic<std::atomic<std::uint32_t>*> g_woken{nullptr};
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void wake() {
    auto* word = g_woken.load();
    if (word == nullptr) return;
    word->store(0);
    ::syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void on_child(int, siginfo_t*, void*) {
    const int error = errno;
    g_child_changed.store(true);
    wake();
    errno = error;
}

bool is_any_of(int number, std::initializer_list<int> numbers) {
    return std::ranges::find(numbers, number) != numbers.end();
}

// Whether the program has it as well. The terminal sends its signals to the whole process group, but for the end of a
// terminal, which a session's leader alone is told of. Timers are this process's own, begun before it was executed.
bool came_to_all(int number, const siginfo_t& info) {
    if (info.si_code != SI_KERNEL) return false;
    if (is_any_of(number, {SIGHUP, SIGCONT})) return ::getsid(0) != ::getpid();
    return is_any_of(number, {SIGINT, SIGQUIT, SIGTSTP, SIGWINCH});
}

// What has happened to this process itself: a limit of its own, a fault, an abort().
bool is_ours(int number, const siginfo_t& info) {
    if (is_any_of(number, {SIGTRAP, SIGSYS}) && info.si_code > 0) return true;
    if (is_any_of(number, {SIGXCPU, SIGXFSZ}) && info.si_code == SI_KERNEL) return true;
    return is_any_of(info.si_code, {SI_USER, SI_QUEUE, SI_TKILL}) && info.si_pid == ::getpid();
}

bool came_from(pid_t program, const siginfo_t& info) {
    return is_any_of(info.si_code, {SI_USER, SI_QUEUE}) && info.si_pid == program;
}

// A shell continues the whole process group.
bool was_continued(pid_t program) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(program), &info, WCONTINUED | WNOHANG) == 0 && info.si_pid != 0;
}

// With the value that sigqueue() gave it.
void send(pid_t program, int number, siginfo_t& info) {
    const bool has_value = info.si_code < 0 && info.si_code != SI_TKILL;
    if (has_value && ::syscall(SYS_rt_sigqueueinfo, program, number, &info) == 0) return;
    ::kill(program, number);
}

void on_signal(int number, siginfo_t* info, void*) {
    const int error = errno;
    const pid_t program = g_program.load();
    if (is_ours(number, *info)) {
        if (is_any_of(number, {SIGTRAP, SIGSYS})) {
            default_signal(number);
            ::raise(number);
        }
    } else if (program == 0) {
        if (number == SIGTSTP) ::raise(SIGSTOP);
        if (is_any_of(number, {SIGINT, SIGTERM, SIGHUP, SIGQUIT})) g_asked_to_end.store(true);
    } else if (!came_to_all(number, *info) && !came_from(program, *info) &&
               !(number == SIGCONT && was_continued(program))) {
        // What the program sends us ends here.
        send(program, number, *info);
    }
    wake();
    errno = error;
}

// SIGPIPE is among them: a reader of our report that has gone is no reason to lose the exit status.
constexpr int kPassedOn[] = {SIGHUP,  SIGINT,    SIGQUIT, SIGTRAP,  SIGABRT, SIGUSR1, SIGUSR2,
                             SIGPIPE, SIGALRM,   SIGTERM, SIGCONT,  SIGTSTP, SIGURG,  SIGXCPU,
                             SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO,   SIGPWR,  SIGSYS};

void pass_on(int number) {
    const bool was_ignored = handle_signal(number, on_signal);
    if (was_ignored) ignore_signal(number);  // nohup: the program ignores it too
}

}  // namespace

bool watch_children() { return handle_signal(SIGCHLD, on_child); }
void leave_children(bool were_ignored) {
    if (were_ignored)
        ignore_signal(SIGCHLD);
    else
        default_signal(SIGCHLD);
}
bool children_changed() { return g_child_changed.exchange(false); }
void children_may_have_changed() { g_child_changed.store(true); }
void wake_at_changes(std::atomic<std::uint32_t>* word) { g_woken.store(word); }
void program_is_over() { g_program.store(0); }
bool asked_to_end() { return g_asked_to_end.load(); }

void pass_signals_to(int program) {
    for (const int number : kPassedOn) pass_on(number);
    for (int number = kFirstRealTime; number <= kLastSignal; number++) pass_on(number);
    g_program.store(program);
}

void stop_by(int number) {
    const SignalSet before = block_signals(kAllSignals);
    const bool is_handled = std::ranges::find(kPassedOn, number) != std::end(kPassedOn);
    if (is_handled) default_signal(number);
    ::raise(number);
    block_signals(kAllSignals & ~signal_bit(number));  // stops here
    if (is_handled) pass_on(number);
    block_signals(before);
}

}  // namespace chainio::run
