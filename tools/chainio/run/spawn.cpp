#include "tools/chainio/run/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "tools/chainio/run/passing.h"

namespace chainio::run {
namespace {

using namespace std::string_view_literals;

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> out;
    for (const std::string& each : strings) out.push_back(const_cast<char*>(each.c_str()));
    out.push_back(nullptr);
    return out;
}

// What a shell does with an executable file that the kernel does not know: it is a script of /bin/sh.
std::vector<std::string> as_script(const Start& what) {
    std::vector<std::string> words{"/bin/sh", what.path};
    if (!what.words.empty()) words.insert(words.end(), what.words.begin() + 1, what.words.end());
    return words;
}

// Everything that execve() takes, made before there is a child that shares this process's memory.
struct PreparedExec {
    explicit PreparedExec(const Start& what)
        : path(what.path.c_str()),
          script(as_script(what)),
          words(pointers(what.words)),
          script_words(pointers(script)),
          environment(pointers(what.environment)) {}

    int execute() const {
        ::execve(path, words.data(), environment.data());
        if (errno == ENOEXEC) ::execve("/bin/sh", script_words.data(), environment.data());
        return errno;
    }

    const char* path;
    std::vector<std::string> script;
    std::vector<char*> words, script_words, environment;
};

struct Birth {
    const PreparedExec& prepared;
    const Inherited& inherited;
    std::vector<std::string> own;        // entries of the environment with room for a number
    std::vector<std::size_t> number_at;  // in each
    const class Turns* turns = nullptr;  // with somebody who does something before the child executes
    int error = 0;
};

constexpr std::string_view kListens = "LISTEN_PID=", kListensById = "LISTEN_PIDFDID=";

// What pidfds call a process, as no other ever is called. The child's is not known here, and who finds none compares
// the number alone.
void leave_out_id(std::vector<char*>& environment) {
    std::erase_if(environment, [](const char* entry) {
        return entry != nullptr && std::string_view(entry).starts_with(kListensById);
    });
}

// Those by which systemd says for which process its sockets and its watchdog are, and which one it has started.
void find_own(const Start& what, Birth& birth, PreparedExec& prepared) {
    constexpr std::size_t kLongest = 11;  // of a number, with its end
    const std::string self = std::to_string(::getpid());
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < what.environment.size(); i++) {
        const std::string_view entry(what.environment[i]);
        for (const std::string_view name : {kListens, "WATCHDOG_PID="sv, "SYSTEMD_EXEC_PID="sv}) {
            if (!entry.starts_with(name) || entry.substr(name.size()) != self) continue;
            birth.own.emplace_back(std::string(name) + std::string(kLongest, '\0'));
            birth.number_at.push_back(name.size());
            places.push_back(i);
        }
    }
    for (std::size_t i = 0; i < places.size(); i++) prepared.environment[places[i]] = birth.own[i].data();
    if (std::ranges::any_of(birth.own, [](const auto& entry) { return entry.starts_with(kListens); }))
        leave_out_id(prepared.environment);
}

// Two pipes, by which parent and child wait for each other. Whoever of the two is at work, the other one makes
// nothing but system calls: what libc and sanitizers keep for a thread they have in common.
class Turns {
  public:
    Turns() {
        if (::pipe2(go_, O_CLOEXEC) != 0) return;
        if (::pipe2(begun_, O_CLOEXEC) == 0) return;
        close_end(go_[0]);
        close_end(go_[1]);
    }
    ~Turns() {
        for (int* const end : {&go_[0], &go_[1], &begun_[0], &begun_[1]}) close_end(*end);
    }
    Turns(const Turns&) = delete;
    Turns& operator=(const Turns&) = delete;
    bool are_there() const { return begun_[0] >= 0; }

    // The child's. It shares the parent's memory, but not its descriptors: a parent that is killed ends the pipe.
    [[clang::disable_sanitizer_instrumentation]] void wait_for_parent() const {
        ::syscall(SYS_close, go_[1]);
        if (!got_byte(go_[0])) ::syscall(SYS_exit_group, 127);
    }
    // The parent's. Returns when the child's memory is another, or it has ended: its end of the pipe closes after that.
    // The other end for reading is still open here, so that a child that was killed gives no SIGPIPE.
    [[clang::disable_sanitizer_instrumentation]] void let_child_go() {
        ::syscall(SYS_close, begun_[1]);
        begun_[1] = -1;
        while (::syscall(SYS_write, go_[1], "", 1) < 0 && errno == EINTR) {}
        (void)got_byte(begun_[0]);
    }

  private:
    static void close_end(int& fd) {
        if (fd >= 0) ::close(fd);
        fd = -1;
    }
    [[clang::disable_sanitizer_instrumentation]] static bool got_byte(int fd) {
        char byte = 0;
        long got = 0;
        while ((got = ::syscall(SYS_read, fd, &byte, 1)) < 0 && errno == EINTR) {}
        return got == 1;
    }

    int go_[2] = {-1, -1}, begun_[2] = {-1, -1};
};

// The child, on a stack of its own in its parent's memory. The parent waits until it executes or ends.
[[clang::disable_sanitizer_instrumentation]] int begin(void* argument) {
    Birth& birth = *static_cast<Birth*>(argument);
    if (birth.turns != nullptr) birth.turns->wait_for_parent();
    for (std::size_t i = 0; i < birth.own.size(); i++) {
        char* const number = birth.own[i].data() + birth.number_at[i];
        *std::to_chars(number, birth.own[i].data() + birth.own[i].size() - 1, ::getpid()).ptr = '\0';
    }
    if (birth.inherited.collects_orphans) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_PDEATHSIG, birth.inherited.at_parents_end);
    birth.inherited.timers.give();
    // No handler of the parent's may run here once signals are no longer blocked.
    leave_children(birth.inherited.ignores_children);
    block_signals(birth.inherited.blocked);
    birth.error = birth.prepared.execute();
    ::_exit(127);
}

}  // namespace

int spawn(const Start& what, const Inherited& inherited, const std::function<void()>& before, int& pid) {
    constexpr std::size_t kStack = 32768;
    alignas(16) char stack[kStack];
    PreparedExec prepared(what);
    Birth birth{prepared, inherited, {}, {}};
    find_own(what, birth, prepared);
    std::optional<Turns> turns;
    if (before) turns.emplace();
    if (turns && turns->are_there()) birth.turns = &*turns;
    // The kernel has the parent wait from the beginning on, or nobody does.
    pid = ::clone(begin, stack + kStack, CLONE_VM | SIGCHLD | (birth.turns == nullptr ? CLONE_VFORK : 0), &birth);
    if (pid < 0) return errno;
    if (before) before();  // late, where there is no descriptor left for a pipe
    if (birth.turns != nullptr) turns->let_child_go();
    if (birth.error != 0) ::waitpid(pid, nullptr, 0);
    return birth.error;
}

int replace_by(const Start& what) { return PreparedExec(what).execute(); }

}  // namespace chainio::run
