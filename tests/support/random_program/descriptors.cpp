// What may be done to descriptors: copies, flags, locks, ranges, limits.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

// A copy shares the position, until one of the two is closed.
void copies(Actor& a) {
    const int fd = a.slot();
    int copy = -1;
    switch (a.rng.below(6)) {
        case 0: copy = a.call_fd("dup", [&] { return ::dup(fd); }); break;
        case 1: copy = a.call_fd("F_DUPFD", [&] { return ::fcntl(fd, F_DUPFD, 20); }); break;
        case 2: copy = a.call_fd("F_DUPFD_CLOEXEC", [&] { return ::fcntl(fd, F_DUPFD_CLOEXEC, 5); }); break;
        case 3: copy = a.call_fd("SYS_dup", [&] { return ::syscall(SYS_dup, fd); }); break;
        default:
            copy = a.call_fd("dup over another", [&] {
                const int to = a.slot();
                return a.rng.chance(50) ? ::dup2(fd, to) : ::dup3(fd, to, O_CLOEXEC);
            });
    }
    const auto into = a.buffer(2000);
    a.bytes(into.data(), a.call("read", [&] { return ::read(copy, into.data(), 1 + a.rng.below(2000)); }));
    a.position(fd);
    a.note("FD_CLOEXEC", copy >= 0 ? ::fcntl(copy, F_GETFD) : -1);
    a.keep(copy);
}

void flags(Actor& a) {
    const int fd = a.slot();
    static constexpr int kFlags[] = {0, O_APPEND, O_NONBLOCK, O_APPEND | O_NONBLOCK, O_DIRECT};
    const int flags = a.rng.of(kFlags);
    a.call(fmt::format("F_SETFL {:o}", flags), [&] { return ::fcntl(fd, F_SETFL, flags); });
    a.call("F_GETFL", [&] { return ::fcntl(fd, F_GETFL); });
    a.call("F_SETFD", [&] { return ::fcntl(fd, F_SETFD, a.rng.chance(50) ? FD_CLOEXEC : 0); });
    a.call("F_GETFD", [&] { return ::fcntl(fd, F_GETFD); });
}

// Closing any descriptor of a file drops the process's locks on it: nobody may open and close one behind the program's
// back.
void locks(Actor& a) {
    const std::string path = a.path(a.file());
    const int fd = a.call_fd("open", [&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = 100;
    lock.l_len = 50;
    a.call("F_SETLK", [&] { return ::fcntl(fd, F_SETLK, &lock); });
    const auto into = a.buffer(9000);
    for (int i = 0; i < 3; ++i) a.bytes(into.data(), a.call("read", [&] { return ::read(fd, into.data(), 3000); }));
    const pid_t child = ::fork();
    if (child == 0) {
        struct flock asked = lock;
        ::fcntl(fd, F_GETLK, &asked);
        std::_Exit(asked.l_type == F_UNLCK ? 1 : asked.l_pid == ::getppid() ? 2 : 3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    a.note("the lock as a child sees it", WEXITSTATUS(status));
    a.call("flock", [&] { return ::flock(fd, LOCK_EX | LOCK_NB); });
    a.call("lockf", [&] { return ::lockf(fd, F_TLOCK, 10); });
    ::close(fd);
}

void ranges(Actor& a) {
    a.close_all();
    const int first = a.open_some(O_RDONLY);
    const int second = a.open_some(O_RDWR);
    a.text(fmt::format("{} {}", first, second));
    if (first < 0 || second < 0) return ::close(first), static_cast<void>(::close(second));
    const auto low = static_cast<unsigned>(std::min(first, second)),
               high = static_cast<unsigned>(std::max(first, second));
    switch (a.rng.below(3)) {
        case 0: a.call("close_range", [&] { return ::close_range(low, high, 0); }); break;
        case 1: a.call("SYS_close_range", [&] { return ::syscall(SYS_close_range, low, high, 0); }); break;
        default: ::closefrom(static_cast<int>(low));
    }
    const auto into = a.buffer(100);
    a.call("read of a closed one", [&] { return ::read(second, into.data(), 100); });
    // The number comes back for something else.
    int ends[2] = {-1, -1};
    a.call("pipe", [&] { return ::pipe(ends); });
    a.text(fmt::format("{} {}", ends[0], ends[1]));
    if (::write(ends[1], "from a pipe", 11) == 11)
        a.bytes(into.data(), a.call("read", [&] { return ::read(ends[0], into.data(), 100); }));
    a.call("pread", [&] { return ::pread(ends[0], into.data(), 100, 0); });
    for (const int fd : ends) ::close(fd);
}

// Exactly as many descriptors as without.
void limits(Actor& a) {
    rlimit before = {};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit low = {.rlim_cur = 40, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
    std::vector<int> opened;
    for (int i = 0; i < 50; ++i) {
        const int fd = a.open_some(O_RDONLY);
        if (fd < 0 && errno == EMFILE) break;
        if (fd >= 0) opened.push_back(fd);
    }
    std::string numbers;
    for (const int fd : opened) numbers += fmt::format(" {}", fd);
    a.text("opened" + numbers);
    const int fd = a.slot();
    a.call_fd("dup", [&] { return ::dup(fd); });
    const auto into = a.buffer(2000);
    if (!opened.empty()) a.bytes(into.data(), a.call("read", [&] { return ::read(opened.back(), into.data(), 2000); }));
    for (const int each : opened) ::close(each);
    ::setrlimit(RLIMIT_NOFILE, &before);
}

// Numbers far up are as good as others.
void far_numbers(Actor& a) {
    const int fd = a.open_some(O_RDONLY);
    const int far =
        a.call_fd("F_DUPFD", [&] { return ::fcntl(fd, F_DUPFD, 500 + static_cast<int>(a.rng.below(400))); });
    if (fd >= 0) ::close(fd);
    const auto into = a.buffer(4000);
    for (int i = 0; i < 3; ++i) a.bytes(into.data(), a.call("read", [&] { return ::read(far, into.data(), 1000); }));
    if (far >= 0) ::close(far);
}

}  // namespace

Operations descriptor_operations() {
    return {{"copies", 8, copies, true, true},  {"flags", 4, flags, true, true},
            {"locks", 2, locks, false, false},  {"ranges", 2, ranges, false, true},
            {"limits", 1, limits, false, true}, {"far", 1, far_numbers, false, true}};
}

}  // namespace chainio::random_program
