// Ways out of the middle of calls: handlers that jump away, threads that are cancelled, timers, handlers that read on a
// small stack of their own, ends of the process that another thread makes.
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <memory>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

sigjmp_buf outside;
void jump_out(int) { siglongjmp(outside, 1); }

class Handled {
  public:
    Handled(int signal, void (*handler)(int), int flags) : signal_(signal) {
        struct sigaction action = {};
        action.sa_handler = handler;
        action.sa_flags = flags;
        ::sigaction(signal, &action, &before_);
    }
    ~Handled() { ::sigaction(signal_, &before_, nullptr); }
    Handled(const Handled&) = delete;

  private:
    int signal_;
    struct sigaction before_ = {};
};

void alarm_after(long microseconds, long again = 0) {
    const itimerval timer = {.it_interval = {.tv_sec = 0, .tv_usec = again},
                             .it_value = {.tv_sec = 0, .tv_usec = microseconds}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
}

// Whatever it is in the middle of; afterwards everything is as ever. What the jump leaves open nobody counts.
void jump_away(Actor& a) {
    const Handled handled(SIGALRM, jump_out, 0);
    static int fd;
    static std::uint8_t into[2000];
    const std::string path = process.base + "/" + a.plain_path(a.file());
    for (int i = 0; i < 5; ++i) {
        fd = a.open_some(O_RDONLY);
        const long soon = 20 + static_cast<long>(a.rng.below(400));
        if (sigsetjmp(outside, 1) == 0) {
            alarm_after(soon);
            for (;;) {
                if (::pread(fd, into, sizeof into, 0) < 0 && fd >= 0) ::pause();
                if (::access(path.c_str(), R_OK) != 0 && errno == EFAULT) ::pause();
            }
        }
        a.bytes(into, a.call("pread behind it", [&] { return ::pread(fd, into, sizeof into, 100); }));
        if (fd >= 0) a.call("close behind it", [&] { return ::close(fd); });
    }
}

// An alarm ends a wait without SA_RESTART, and does not end one with it.
void alarms(Actor& a) {
    static int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    char byte = 0;
    {
        const Handled handled(SIGALRM, [](int) {}, 0);
        alarm_after(300, 300);
        a.call("read that an alarm ends", [&] { return ::read(ends[0], &byte, 1); });
        alarm_after(0);
    }
    const Handled handled(
        SIGALRM,
        [](int) {
            const int before = errno;
            if (::write(ends[1], "a", 1) != 1) std::abort();
            errno = before;
        },
        SA_RESTART);
    alarm_after(300);
    a.call("read that goes on", [&] { return ::read(ends[0], &byte, 1); });
    alarm_after(0);
    for (const int fd : ends) ::close(fd);
}

int of_handler = -1;
long got_there = 0;
std::uint8_t there[3000];
void read_there(int) {
    const int before = errno;
    got_there = ::pread(of_handler, there, sizeof there, 0);
    errno = before;
}

// A handler that reads on a stack of its own, while the program reads.
void reading_handler(Actor& a) {
    constexpr std::size_t kStack = 24 * 1024;
    const std::unique_ptr<std::uint8_t[]> memory(new std::uint8_t[kStack]);
    const stack_t stack = {.ss_sp = memory.get(), .ss_flags = 0, .ss_size = kStack};
    stack_t before = {};
    ::sigaltstack(&stack, &before);
    of_handler = a.open_some(O_RDONLY);
    {
        const Handled handled(SIGALRM, read_there, SA_ONSTACK | SA_RESTART);
        alarm_after(100, 150);
        const auto into = a.buffer(2000);
        for (int i = 0; i < 30; ++i) {
            const int fd = a.open_some(O_RDONLY);
            a.bytes(into.data(), a.call("pread", [&] { return ::pread(fd, into.data(), into.size(), 0); }));
            if (fd >= 0) ::close(fd);
        }
        alarm_after(0);
        ::raise(SIGALRM);
    }
    a.note("a handler's pread", got_there);
    a.bytes(there, got_there);
    if (of_handler >= 0) ::close(of_handler);
    ::sigaltstack(&before, nullptr);
}

struct Reader {
    int fd;
    int pipe;
    bool cleaned;
};

void clean(void* reader) { static_cast<Reader*>(reader)->cleaned = true; }

void* read_for_ever(void* given) {
    auto* reader = static_cast<Reader*>(given);
    char into[512];
    pthread_cleanup_push(clean, given);
    if (reader->pipe >= 0) {
        while (::read(reader->pipe, into, sizeof into) != 0) {}
    } else {
        while (::pread(reader->fd, into, sizeof into, 0) >= 0) {}
        for (;;) ::pause();
    }
    pthread_cleanup_pop(0);
    return nullptr;
}

// A thread that is cancelled while it reads: a file, or a pipe in which nothing comes. What it held it lets go of.
void cancelled(Actor& a) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    Reader reader = {.fd = a.open_some(O_RDONLY), .pipe = a.rng.chance(50) ? ends[0] : -1, .cleaned = false};
    pthread_t thread;
    if (::pthread_create(&thread, nullptr, read_for_ever, &reader) != 0) return;
    ::usleep(static_cast<useconds_t>(a.rng.below(300)));
    a.call("pthread_cancel", [&] { return ::pthread_cancel(thread); });
    void* result = nullptr;
    a.call("pthread_join", [&] { return ::pthread_join(thread, &result); });
    a.note("cancelled", result == PTHREAD_CANCELED);
    a.note("cleaned", reader.cleaned || reader.pipe < 0);
    const auto into = a.buffer(1000);
    a.bytes(into.data(), a.call("read", [&] { return ::read(reader.fd, into.data(), into.size()); }));
    if (reader.fd >= 0) ::close(reader.fd);
    for (const int fd : ends) ::close(fd);
}

void* end_process(void* how) {
    ::usleep(200);
    if (how) ::_exit(21);
    std::quick_exit(22);
}

// Another thread ends the process while this one reads.
void ended_elsewhere(Actor& a) {
    const bool at_once = a.rng.chance(50);
    const pid_t made = ::fork();
    if (made == 0) {
        pthread_t thread;
        const int fd = a.open_some(O_RDONLY);
        if (::pthread_create(&thread, nullptr, end_process, at_once ? &thread : nullptr) != 0) std::_Exit(1);
        for (;;) {
            char into[4096];
            if (::pread(fd, into, sizeof into, 0) < 0) ::pause();
        }
    }
    int status = 0;
    ::waitpid(made, &status, 0);
    a.note("status", status);
}

}  // namespace

Operations escape_operations() {
    return {{"jump away", 2, jump_away, false, true},
            {"alarms", 2, alarms, false, true},
            {"reading handler", 2, reading_handler, false, true},
            {"cancelled", 2, cancelled, false, true},
            {"ended elsewhere", 2, ended_elsewhere, false, true}};
}

}  // namespace chainio::random_program
