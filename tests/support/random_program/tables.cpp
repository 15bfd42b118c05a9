// Tables of descriptors: shared with children, left, closed under a read, and filled by other ways than open.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sched.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

int status_of(pid_t child) {
    int status = -1;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

void read_all(Actor& a, std::string_view what, int fd) {
    const auto into = a.buffer(3000);
    a.bytes(into.data(), a.call(what, [&] { return ::read(fd, into.data(), into.size()); }));
    a.bytes(into.data(), a.call(what, [&] { return ::pread(fd, into.data(), into.size(), 512); }));
    a.position(fd);
}

// What a child puts in place of a descriptor is there for the parent, too.
void common(Actor& a) {
    const std::string other = process.base + "/" + a.plain_path(a.file());
    const int fd = a.open_some(O_RDONLY);
    if (fd < 0) return;
    read_all(a, "read before", fd);
    const auto made = static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, 0L));
    if (made == 0) {
        const int mine = ::open(other.c_str(), O_RDONLY | O_CLOEXEC);
        if (mine >= 0) ::dup2(mine, fd);
        ::close(mine);
        ::_exit(mine >= 0 ? 3 : 4);
    }
    a.note("status", status_of(made));
    read_all(a, "read what the child has put there", fd);
    a.call("close", [&] { return ::close(fd); });
}

// The same of files that may be served: each read is of the file that the number stands for at that moment.
void common_direct(Actor& a) {
    const std::string one = a.fixed_path(), two = a.fixed_path();
    const int fd = a.call_fd("open direct", [&] { return ::open(one.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC); });
    if (fd < 0) return;
    const auto look = [&](std::string_view what) {
        for (off_t page = 0; page < 10; ++page) {
            const auto into = a.buffer(8192);
            a.bytes(into.data(), a.call(what, [&] { return ::pread(fd, into.data(), 8192, page * 4096); }));
            if (page == 0 && process.settled) ::usleep(3000);
        }
    };
    look("pread before");
    const auto made = static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, 0L));
    if (made == 0) {
        ::close(fd);
        ::_exit(::open(two.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC) == fd ? 3 : 4);
    }
    a.note("status", status_of(made));
    look("pread of what the child has put there");
    a.call("close", [&] { return ::close(fd); });
}

// A child that shares memory, but not descriptors: what it opens and closes is its own.
void borrowed(Actor& a) {
    const std::string other = process.base + "/" + a.plain_path(a.file());
    const int fd = a.open_some(O_RDONLY);
    if (fd < 0) return;
    static volatile long got;
    static char into[4096];
    const int how = static_cast<int>(a.rng.below(3));
    const pid_t made = ::vfork();
    if (made == 0) {
        const int mine = ::open(other.c_str(), O_RDONLY);
        if (how == 0) ::dup2(mine, fd);
        if (how == 1) ::close(fd);
        got = ::pread(how == 2 ? mine : fd, into, sizeof into, 0);
        if (how == 2) ::execl("/no/such/program", "program", nullptr);
        ::_exit(7);
    }
    a.note("status", status_of(made));
    a.note("a child's pread", got);
    a.bytes(into, got);
    read_all(a, "read", fd);
    ::close(fd);
}

// The number stands for another file when the read of the pipe that it stood for returns. What comes is the pipe's, or
// the file's where the thread has not begun to read before.
void closed_under_a_read(Actor& a) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    const std::string path = process.base + "/" + a.plain_path(a.file());
    char into[8] = {}, begin[8] = {};
    long got = 0, in_file = 0;
    int error = 0;
    {
        const std::jthread reader([&] {
            errno = kUntouched;
            got = ::read(ends[0], into, sizeof into);
            error = errno;
        });
        ::usleep(500);
        const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        in_file = ::pread(file, begin, sizeof begin, 0);
        const int kept = ::fcntl(ends[0], F_DUPFD_CLOEXEC, 30);
        if (file >= 0) a.call("dup2 over it", [&] { return ::dup2(file, ends[0]); });
        if (file >= 0) ::close(file);
        if (::write(ends[1], "through", 7) != 7) std::abort();
        if (file >= 0) ::lseek(ends[0], 0, SEEK_END);
        ::close(ends[1]);
        ::fcntl(kept, F_SETFL, O_NONBLOCK);
        ::close(kept);
    }
    const bool of_pipe = got == 7 && std::memcmp(into, "through", 7) == 0;
    const bool of_file = got == 0 || (got > 0 && got == in_file && std::memcmp(into, begin, sizeof begin) == 0);
    a.note("right", error == kUntouched && (of_pipe || (of_file && in_file >= 0)));
    read_all(a, "pread", ends[0]);
    ::close(ends[0]);
}

void ranges_of_many(Actor& a) {
    const int first = a.open_some(O_RDONLY), second = a.open_some(O_RDONLY);
    if (first < 0 || second < 0) return ::close(first), static_cast<void>(::close(second));
    const auto low = static_cast<unsigned>(first < second ? first : second);
    const auto high = static_cast<unsigned>(first < second ? second : first);
    ::fcntl(first, F_SETFD, 0);
    a.call("to be closed by exec", [&] { return ::close_range(low, high, CLOSE_RANGE_CLOEXEC); });
    a.note("F_GETFD", ::fcntl(first, F_GETFD));
    read_all(a, "read", first);
    a.call("the wrong way round", [&] { return ::close_range(high, low, high == low ? 64 : 0); });
    a.call("unknown flags", [&] { return ::close_range(low, high, 1U << 20); });
    read_all(a, "read", second);
    std::jthread([&] {
        if (::close_range(low, high, CLOSE_RANGE_UNSHARE) != 0) std::abort();
    }).join();
    read_all(a, "read beside a thread that has none", first);
    ::close(first);
    ::close(second);
}

// Other ways to a descriptor: by its number in /proc, by a folder's, by one that only stands for a name.
void by_number(Actor& a) {
    const std::string path = a.path(a.file());
    const int place = a.call_fd("O_PATH", [&] { return ::open(path.c_str(), O_PATH | O_CLOEXEC); });
    read_all(a, "read of a name", place);
    static constexpr int kOpenFlags[] = {O_RDONLY,
                                         O_RDWR,
                                         O_WRONLY | O_APPEND,
                                         O_RDWR | O_APPEND,
                                         O_RDONLY | O_DIRECT,
                                         O_RDONLY | O_NOFOLLOW,
                                         O_RDWR | O_DSYNC,
                                         O_RDWR | O_APPEND | O_DIRECT};
    const std::string number = fmt::format("/proc/self/fd/{}", place);
    const int flags = a.rng.of(kOpenFlags);
    const int fd =
        a.call_fd(fmt::format("open {:o}", flags), [&] { return ::open(number.c_str(), flags | O_CLOEXEC); });
    read_all(a, "read", fd);
    const std::string name = process.base + "/" + a.folder + "linked.dat";
    a.call("linkat", [&] { return ::linkat(place, "", AT_FDCWD, name.c_str(), AT_EMPTY_PATH); });
    const int again = a.call_fd("open", [&] { return ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOATIME); });
    read_all(a, "read", again);
    a.call("unlink", [&] { return ::unlink(name.c_str()); });
    for (const int each : {place, fd, again})
        if (each >= 0) ::close(each);
}

// What a new process finds after the actions of posix_spawn.
void spawned(Actor& a) {
    const std::string path = process.base + "/" + a.plain_path(a.file()), folder = process.base + "/sub";
    const char* words[] = {process.program.c_str(), "--helper", "report", "all", nullptr};
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    const int fd = a.open_some(O_RDWR | O_CREAT);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    ::posix_spawn_file_actions_addopen(&actions, 5, path.c_str(), O_RDWR | O_APPEND, 0);
    ::posix_spawn_file_actions_adddup2(&actions, 5, 9);
    if (a.rng.chance(50)) ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    if (a.rng.chance(20)) ::posix_spawn_file_actions_addclose(&actions, 40);
    if (a.rng.chance(20)) ::posix_spawn_file_actions_addopen(&actions, 6, "/no/such/file", O_RDONLY, 0);
    pid_t made = -1;
    a.call("posix_spawn",
           [&] { return ::posix_spawn(&made, words[0], &actions, nullptr, const_cast<char**>(words), ::environ); });
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    char text[4096] = {};
    std::size_t size = 0;
    for (ssize_t got = 1; got > 0 && size < sizeof text - 1; size += static_cast<std::size_t>(got > 0 ? got : 0))
        got = ::read(ends[0], text + size, sizeof text - 1 - size);
    a.log += text;
    ::close(ends[0]);
    if (made > 0) a.note("status", status_of(made));
    if (fd >= 0) ::close(fd);
}

// A child with another root, another user, fewer rights and smaller limits reads and writes what these let it.
int confined(Actor& a) {
    const std::string name = "/" + a.plain_path(a.file());
    const int before = a.open_some(O_RDONLY);
    a.call("chroot", [&] { return ::chroot(process.base.c_str()); });
    const int fd = a.call_fd("open below it", [&] { return ::open(name.c_str(), O_RDWR | O_CLOEXEC); });
    read_all(a, "read", fd);
    a.call("chdir", [&] { return ::chdir("/"); });
    const rlimit few = {.rlim_cur = 12, .rlim_max = 12}, small = {.rlim_cur = 6000, .rlim_max = 6000};
    a.call("RLIMIT_NOFILE", [&] { return ::setrlimit(RLIMIT_NOFILE, &few); });
    a.call("RLIMIT_FSIZE", [&] { return ::setrlimit(RLIMIT_FSIZE, &small); });
    a.call("seteuid", [&] { return ::seteuid(65534); });
    for (int i = 0; i < 10; ++i) a.call_fd("open", [&] { return ::open(name.c_str(), i % 2 ? O_RDWR : O_RDONLY); });
    read_all(a, "read of what was open", before);
    ::signal(SIGXFSZ, SIG_IGN);
    const auto data = a.random_bytes(9000);
    a.call("pwrite", [&] { return ::pwrite(fd, data.data(), a.writable(fd, data.size()), 100); });
    a.call("exec", [&] { return ::execl("/no/such", "such", nullptr); });
    return 9;
}

void confine(Actor& a) {
    const unsigned number = process.children++;
    const std::string log = fmt::format("{}/{}confined{}.log", process.base, a.folder, number);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const pid_t made = ::fork();
    if (made == 0) {
        a.log.clear();
        const int status = confined(a);
        const std::string text = a.log.substr(0, 5900);
        std::_Exit(::write(out, text.data(), text.size()) > 0 ? status : 1);
    }
    a.note("status", status_of(made));
    ::close(out);
}

}  // namespace

Operations table_operations() {
    return {{"common", 2, common, false, true},
            {"common direct", 2, common_direct, false, true},
            {"borrowed", 2, borrowed, false, true},
            {"closed under a read", 2, closed_under_a_read, false, true},
            {"ranges of many", 2, ranges_of_many, false, true},
            {"by number", 3, by_number, true, true},
            {"spawned", 1, spawned, false, true},
            {"confine", 1, confine, false, true}};
}

}  // namespace chainio::random_program
