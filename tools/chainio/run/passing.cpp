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
#include "tools/chainio/run/stops.h"

namespace chainio::run {
namespace {

std::atomic<pid_t> g_program{0};
std::atomic<bool> g_child_changed{false};
std::atomic<bool> g_asked_to_end{false};
std::atomic<SignalSet> g_ignored{0};  // before they were passed on
std::atomic<SignalSet> g_earlier{0};  // sent before there was a program
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

// The stop that was followed is read by then: one that is not is a later one.
bool has_stopped_again(pid_t program) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(program), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
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
    if ((g_earlier.load() & signal_bit(number)) != 0) {
        send(program, number, *info);
    } else if (is_ours(number, *info)) {
        if (is_any_of(number, {SIGTRAP, SIGSYS})) {
            default_signal(number);
            ::raise(number);
        }
    } else if (program == 0) {
        if (number == SIGTSTP) ::raise(SIGSTOP);
        const bool was_ignored = (g_ignored.load() & signal_bit(number)) != 0;  // nohup
        if (is_any_of(number, {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) && !was_ignored) g_asked_to_end.store(true);
    } else if (!came_to_all(number, *info) && !came_from(program, *info) &&
               !(number == SIGCONT && was_continued(program))) {
        // What the program sends us ends here.
        send(program, number, *info);
    }
    wake();
    errno = error;
}

// SIGPIPE is among them: a reader of our report that has gone is no reason to lose the exit status.
constexpr int kPassedOn[] = {SIGHUP,    SIGINT,  SIGQUIT,   SIGTRAP, SIGABRT, SIGUSR1, SIGUSR2, SIGPIPE,
                             SIGALRM,   SIGTERM, SIGSTKFLT, SIGCONT, SIGTSTP, SIGURG,  SIGXCPU, SIGXFSZ,
                             SIGVTALRM, SIGPROF, SIGWINCH,  SIGIO,   SIGPWR,  SIGSYS};

// Also what was ignored, as for jobs in the background of a script: the program ignores it too, or has a handler by
// now.
void pass_on(int number) {
    if (handle_signal(number, on_signal)) g_ignored.fetch_or(signal_bit(number));
}

bool is_real_time(int number) { return number >= kFirstRealTime && number <= kLastSignal; }

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

void pass_signals_to(int program, SignalSet earlier) {
    for (const int number : kPassedOn) pass_on(number);
    for (int number = kFirstRealTime; number <= kLastSignal; number++) pass_on(number);
    g_earlier.store(earlier);
    g_program.store(program);
}

void earlier_signals_have_come() { g_earlier.store(0); }

SignalSet passed_signals() {
    SignalSet all = 0;
    for (int number = 1; number <= kLastSignal; number++)
        if (is_real_time(number) || std::ranges::find(kPassedOn, number) != std::end(kPassedOn))
            all |= signal_bit(number);
    return all;
}

void ignore_as_before() {
    for (int number = 1; number <= kLastSignal; number++)
        if ((g_ignored.load() & signal_bit(number)) != 0) ignore_signal(number);
}

static void stop_while_watched(int number) {
    const Watcher watcher(g_program.load());
    if (!watcher) return;
    const bool is_handled = std::ranges::find(kPassedOn, number) != std::end(kPassedOn);
    if (is_handled) default_signal(number);
    ::raise(number);
    block_signals(kAllSignals & ~signal_bit(number));  // stops here
    block_signals(kAllSignals);
    if (is_handled) pass_on(number);
}

// What continued this process is dealt with before anybody asks how the program is: the program's own continuation is
// told once, and without it this one would be taken for ours alone and passed on. A program that has stopped again
// before that was continued too; its continuation is told no more, and another would undo that stop. (Somebody may have
// continued the program alone, and this process alone within the watcher's 50 ms: that signal has to come again.)
static void take_continuation() {
    const sigset_t continued = to_libc(signal_bit(SIGCONT));
    constexpr timespec kNow{0, 0};
    siginfo_t info{};
    if (::sigtimedwait(&continued, &info, &kNow) != SIGCONT) return;
    const pid_t program = g_program.load();
    if (was_continued(program) || has_stopped_again(program)) return;  // in this order: it may stop in between
    on_signal(SIGCONT, &info, nullptr);
}

void stop_by(int number) {
    const SignalSet before = block_signals(kAllSignals);
    stop_while_watched(number);
    take_continuation();
    block_signals(before);
}

}  // namespace chainio::run
