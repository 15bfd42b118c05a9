#include "compiler/backends/interruption.h"

#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace chainio::backends {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

// What a handler may touch.
std::array<std::atomic<pid_t>, 16> g_children{};
std::atomic<int> g_asked = 0;

int g_living = 0;
std::array<struct sigaction, kSignals.size()> g_before{};

void note(int signal) {
    g_asked = signal;
    for (const auto& child : g_children) {
        if (const pid_t pid = child; pid > 0) ::kill(-pid, SIGTERM);
    }
}

void replace_child(pid_t before, pid_t now) {
    for (auto& child : g_children) {
        pid_t expected = before;
        if (child.compare_exchange_strong(expected, now)) return;
    }
}

}  // namespace

Interruption::Interruption() {
    if (g_living++ > 0) return;
    g_asked = 0;
    for (std::size_t i = 0; i < kSignals.size(); i++) {
        ::sigaction(kSignals[i], nullptr, &g_before[i]);
        if (g_before[i].sa_handler == SIG_IGN) continue;
        struct sigaction action{};
        action.sa_handler = note;
        ::sigaction(kSignals[i], &action, nullptr);
    }
}

Interruption::~Interruption() {
    if (--g_living > 0) return;
    for (std::size_t i = 0; i < kSignals.size(); i++) ::sigaction(kSignals[i], &g_before[i], nullptr);
    if (const int signal = g_asked; signal != 0) ::raise(signal);
}

bool Interruption::asked() { return g_asked != 0; }

int Interruption::start(pid_t& pid, const char* program, const posix_spawn_file_actions_t& actions, char* const* words,
                        char* const* environment) {
    sigset_t blocked, before;
    sigemptyset(&blocked);
    for (const int signal : kSignals) sigaddset(&blocked, signal);
    ::sigprocmask(SIG_BLOCK, &blocked, &before);  // a child that is started is one that a handler knows
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &before);
    const int error = asked() ? EINTR : posix_spawnp(&pid, program, &actions, &attributes, words, environment);
    posix_spawnattr_destroy(&attributes);
    if (error == 0) replace_child(0, pid);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return error;
}

void Interruption::tell_again(pid_t pid) {
    if (asked()) ::kill(-pid, SIGTERM);
}

pid_t Interruption::wait(pid_t pid, int& status) {
    // The child is told, and forgotten, before its number can be another's.
    siginfo_t ended{};
    while (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {}
    tell_again(pid);
    replace_child(pid, 0);
    return ::waitpid(pid, &status, 0);
}

}  // namespace chainio::backends
