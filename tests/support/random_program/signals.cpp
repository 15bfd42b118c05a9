// Signals that interrupt calls: EINTR where there is no SA_RESTART, and calls that go on where there is.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

std::atomic<unsigned> handled = 0;
void on_signal(int) {
    const int saved = errno;
    handled.fetch_add(1);
    errno = saved;
}

struct Handler {
    struct sigaction before = {};
    explicit Handler(int flags) {
        struct sigaction action = {};
        action.sa_handler = on_signal;
        action.sa_flags = flags;
        ::sigaction(SIGUSR1, &action, &before);
    }
    ~Handler() { ::sigaction(SIGUSR1, &before, nullptr); }
};

void pause_shortly() {
    const timespec moment = {.tv_sec = 0, .tv_nsec = 100'000};
    ::nanosleep(&moment, nullptr);
}

// Keeps interrupting the calling thread until it says that its call has returned.
class Poker {
  public:
    Poker()
        : thread_([this, target = ::pthread_self()] {
              while (!done_.load()) {
                  pause_shortly();
                  if (!done_.load()) ::pthread_kill(target, SIGUSR1);
              }
          }) {}
    ~Poker() { done_ = true; }

  private:
    std::atomic<bool> done_ = false;
    std::jthread thread_;
};

template <class Call>
void interrupted(Actor& a, const char* what, Call make) {
    const Handler handler(0);
    const Poker poker;
    a.call(what, make);
}

void interrupt(Actor& a) {
    int ends[2] = {-1, -1}, pair[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return;
    char byte = 0;
    switch (a.rng.below(7)) {
        case 0: interrupted(a, "read", [&] { return ::read(ends[0], &byte, 1); }); break;
        case 1: interrupted(a, "recv", [&] { return ::recv(pair[0], &byte, 1, 0); }); break;
        case 2: {
            pollfd waiting = {.fd = ends[0], .events = POLLIN, .revents = 0};
            interrupted(a, "poll", [&] { return ::poll(&waiting, 1, -1); });
            break;
        }
        case 3: {
            const int poll = ::epoll_create1(EPOLL_CLOEXEC);
            epoll_event event = {};
            interrupted(a, "epoll_wait", [&] { return ::epoll_wait(poll, &event, 1, -1); });
            ::close(poll);
            break;
        }
        case 4: {
            fd_set readable;
            FD_ZERO(&readable);
            FD_SET(ends[0], &readable);
            interrupted(a, "select", [&] { return ::select(ends[0] + 1, &readable, nullptr, nullptr, nullptr); });
            break;
        }
        case 5: {
            const timespec hour = {.tv_sec = 3600, .tv_nsec = 0};
            interrupted(a, "nanosleep", [&] { return ::nanosleep(&hour, nullptr); });
            break;
        }
        default:
            ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
            interrupted(a, "write", [&] {
                const auto data = a.random_bytes(4096);
                const ssize_t first = ::write(ends[1], data.data(), data.size());
                return first == 4096 ? ::write(ends[1], data.data(), data.size()) : first;
            });
    }
    for (const int fd : {ends[0], ends[1], pair[0], pair[1]}) ::close(fd);
}

// With SA_RESTART the call goes on, and gives what it was made for.
void restart(Actor& a) {
    const Handler handler(SA_RESTART);
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    char byte = 0;
    handled = 0;
    {
        const std::jthread other([&, target = ::pthread_self()] {
            for (int i = 0; i < 4; ++i) {
                pause_shortly();
                ::pthread_kill(target, SIGUSR1);
            }
            if (::write(ends[1], "z", 1) != 1) std::abort();
        });
        a.call("read", [&] { return ::read(ends[0], &byte, 1); });
    }
    a.note("byte", byte);
    ::close(ends[0]);
    ::close(ends[1]);
}

// File calls are not interrupted, however many signals come.
void busy(Actor& a) {
    const Handler handler(0);
    const int fd = a.open_some(O_RDWR | O_CREAT);
    const auto into = a.buffer(6000);
    {
        const Poker poker;
        for (int i = 0; i < 40; ++i) {
            const auto at = static_cast<off_t>(a.rng.below(20000));
            a.bytes(into.data(), a.call("pread", [&] { return ::pread(fd, into.data(), into.size(), at); }));
        }
    }
    ::close(fd);
}

void masks(Actor& a) {
    sigset_t set, before, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    const Handler handler(0);
    handled = 0;
    a.call("block", [&] { return ::pthread_sigmask(SIG_BLOCK, &set, &before); });
    ::raise(SIGUSR1);
    const int fd = a.open_some(O_RDONLY);
    const auto into = a.buffer(3000);
    a.bytes(into.data(), a.call("read", [&] { return ::read(fd, into.data(), into.size()); }));
    ::close(fd);
    a.note("handled while blocked", handled.load());
    ::sigpending(&pending);
    a.note("pending", sigismember(&pending, SIGUSR1));
    a.call("unblock", [&] { return ::pthread_sigmask(SIG_SETMASK, &before, nullptr); });
    a.note("handled", handled.load());
}

}  // namespace

Operations signal_operations() {
    return {{"interrupt", 3, interrupt, false, true},
            {"restart", 2, restart, false, true},
            {"busy", 1, busy, false, true},
            {"masks", 2, masks, false, true}};
}

}  // namespace chainio::random_program
