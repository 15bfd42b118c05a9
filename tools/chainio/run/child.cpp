#include "tools/chainio/run/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "tools/chainio/run/children.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/passing.h"
#include "tools/chainio/run/signals.h"

namespace chainio::run {
namespace {

// waitid() and no other call does both: a filter that lets this one through would refuse the other for ever.
void collect_ended(pid_t child) {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG);
}

// As after unshare(CLONE_NEWPID) or setns(). There is no /proc/self/ns/pid_for_children before a namespace's first
// process.
bool has_children_elsewhere() {
    struct stat own{}, childrens{};
    if (::stat("/proc/self/ns/pid", &own) != 0) return false;
    return ::stat("/proc/self/ns/pid_for_children", &childrens) != 0 || own.st_ino != childrens.st_ino;
}

}  // namespace

std::string cannot_be_parent() {
    if (has_children_elsewhere())
        return "as a child of chainio it would be in another PID namespace; make that with `unshare --pid --fork`";
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno == ECHILD) return {};
    return std::string("chainio would not hear of its end: waitid() is refused here (") + std::strerror(errno) +
           "), most likely by a filter of system calls";
}

std::expected<Child, int> Child::start(const Start& what, bool whole_tree, const std::function<void()>& before_it) {
    int collected = 0;
    ::prctl(PR_GET_CHILD_SUBREAPER, &collected);
    std::vector<int> earlier;
    if (whole_tree) {
        earlier = children();
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    // A signal that comes before the program is there waits until it is.
    const SignalSet before = block_signals(kAllSignals);
    const bool were_ignored = watch_children();
    int at_parents_end = 0, pid = 0;
    ::prctl(PR_GET_PDEATHSIG, &at_parents_end);
    const Timers timers = Timers::take();
    const SignalSet sent_before = waiting_signals();
    const int error = spawn(what, {before, were_ignored, collected != 0, at_parents_end, timers}, before_it, pid);
    if (error != 0) {
        // This process may become another, and start the program then, or become the program.
        timers.give();
        leave_children(were_ignored);
        ::prctl(PR_SET_CHILD_SUBREAPER, collected);
        block_signals(before);
        return std::unexpected(error);
    }
    // After it, so that the program has of this process what it would have without it.
    pass_signals_to(pid, sent_before);
    block_signals(before & ~signal_bit(SIGCHLD) & ~passed_signals());
    earlier_signals_have_come();
    return Child(pid, whole_tree, std::move(earlier));
}

Child Child::adopt(int pid, SignalSet signals, bool whole_tree, std::vector<int> earlier) {
    watch_children();
    pass_signals_to(pid);
    children_may_have_changed();  // before anybody looked
    block_signals(signals & ~passed_signals());
    return Child(pid, whole_tree, std::move(earlier));
}

int Child::look(siginfo_t& info) const {
    return ::waitid(whole_tree_ ? P_ALL : P_PID, static_cast<id_t>(whole_tree_ ? 0 : pid_), &info,
                    WEXITED | WNOHANG | WNOWAIT);
}

void Child::follow_stops() const {
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid != 0) {
        if (info.si_code == CLD_STOPPED) stop_by(info.si_status);
        info = {};
    }
}

void Child::collect_orphans() const {
    if (whole_tree_ || ::getpid() != 1) return;
    siginfo_t info{};
    while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 && info.si_pid != pid_) {
        collect_ended(info.si_pid);
        info = {};
    }
}

bool Child::any_over() const {
    follow_stops();
    collect_orphans();
    siginfo_t info{};
    return look(info) == 0 && info.si_pid != 0;
}

bool Child::collect() {
    siginfo_t info{};
    const int error = look(info);
    if (error != 0 && errno == ECHILD) all_ended_ = true;
    if (error != 0 || info.si_pid == 0) return false;
    if (info.si_pid == pid_) {
        program_is_over();
        program_ended_ = true;
        how_ = info.si_code == CLD_EXITED ? Ended{info.si_status, 0} : Ended{0, info.si_status};
        if (!whole_tree_) all_ended_ = true;
    }
    collect_ended(info.si_pid);
    std::erase(earlier_, info.si_pid);  // its number may become another's
    return true;
}

// All of those that are left are found: what hides one of the run hides an earlier one as well.
bool Child::only_earlier_left() const { return !earlier_.empty() && children() == earlier_; }

bool Child::ended() {
    if (program_ended_ && asked_to_end()) return true;
    if (!all_ended_ && children_changed()) {
        if (!program_ended_) follow_stops();
        collect_orphans();
        while (!all_ended_ && collect()) {}
        if (program_ended_ && !all_ended_) all_ended_ = only_earlier_left();
    }
    return all_ended_;
}

void Child::wait() { wait_or_read(-1); }

// Whether it can be read. Signals come while this waits, and a filter of system calls that refuses ppoll() leaves only
// to look now and then.
static bool wait_for_signal_or(pollfd& other, SignalSet signals) {
    const sigset_t waiting = to_libc(signals);
    const int found = ::ppoll(&other, 1, nullptr, &waiting);
    if (found >= 0 || errno == EINTR) return found > 0;
    constexpr int kLookMs = 10;
    const SignalSet before = block_signals(signals);
    const bool can_read = ::poll(&other, 1, kLookMs) > 0;
    block_signals(before);
    return can_read;
}

bool Child::wait_or_read(int descriptor) {
    // Signals come while waiting and at no other time, so that none is missed.
    const SignalSet before = block_signals(kAllSignals);
    pollfd other{descriptor, POLLIN, 0};  // a negative number is none
    bool is_over = false, can_read = false;
    while (!(is_over = ended()) && !can_read) can_read = wait_for_signal_or(other, before);
    block_signals(before);
    return is_over;
}

void end_like(const Ended& how) {
    if (how.signal != 0) {
        const rlimit none{0, 0};  // the program has left its core; ours would replace it
        ::setrlimit(RLIMIT_CORE, &none);
        ::prctl(PR_SET_DUMPABLE, 0);  // which a program that takes cores by a pipe goes by
        default_signal(how.signal);
        block_signals(block_signals(kAllSignals) & ~signal_bit(how.signal));
        ::raise(how.signal);
    }
    ::_exit(how.signal != 0 ? 128 + how.signal : how.code);
}

// Whether this process, which somebody else was before, has a lock of records (fcntl, lockf) by that descriptor. (All
// locks are in /proc/locks, but reading that waits for every processor.)
static bool holds_lock(const char* descriptor) {
    constexpr std::size_t kMost = std::size_t{1} << 20;
    const auto info = read_whole(std::string("/proc/self/fdinfo/") + descriptor, kMost);
    if (!info) return false;
    std::string_view rest = *info;
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        if (line.starts_with("lock:") && line.find("POSIX") != std::string_view::npos) return true;
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
    return false;
}

// Those that were there before this program, but for standard error. None where there is a lock: it would end with any
// descriptor of its file.
static std::vector<int> inherited_descriptors() {
    std::vector<int> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> open_ones(
        ::opendir("/proc/self/fd"), [](DIR* folder) { return folder != nullptr ? ::closedir(folder) : 0; });
    for (const dirent* each = nullptr; open_ones != nullptr && (each = ::readdir(open_ones.get())) != nullptr;) {
        const int fd = std::atoi(each->d_name);
        // Those of this process close when it executes another program.
        if (each->d_name[0] == '.' || ::fcntl(fd, F_GETFD) != 0) continue;
        if (holds_lock(each->d_name)) return {};  // by standard error as well: another may be of the same file
        if (fd != 2) found.push_back(fd);
    }
    return found;
}

void let_go_of_descriptors() {
    const std::vector<int> inherited = inherited_descriptors();
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : inherited) {
        if (fd > 2) {
            ::close(fd);
        } else if (nothing >= 0) {
            ::dup2(nothing, fd);
        }
    }
    if (nothing > 2) ::close(nothing);
}

void guard_standard_descriptors() {
    for (int fd = 0; fd < 3; fd++) {
        if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR | O_CLOEXEC);  // takes the lowest number that is free
    }
}

}  // namespace chainio::run
