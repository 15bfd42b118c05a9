// What the kernel tells of files and of itself: inotify, dnotify, leases, locks of an opening, signalfd, counters.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <map>
#include <string>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

// What is read is not among it: whoever reads a file beside the program is seen.
constexpr std::uint32_t kChanges = IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                                   IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF;

// Each watch's in their order, until the file of one of them has gone.
std::map<int, std::string> events_of(int notices) {
    alignas(inotify_event) char memory[4096];
    std::map<int, std::string> lines;
    for (bool waits = true;;) {
        const ssize_t got = ::read(notices, memory, sizeof memory);
        if (got <= 0) return lines;
        for (ssize_t at = 0; at < got;) {
            const auto& event = *reinterpret_cast<const inotify_event*>(memory + at);
            lines[event.wd] += fmt::format("  event {:x} {}\n", event.mask, event.len > 0 ? event.name : "");
            waits = waits && (event.mask & IN_IGNORED) == 0;
            at += static_cast<ssize_t>(sizeof event + event.len);
        }
        if (!waits) ::fcntl(notices, F_SETFL, O_NONBLOCK);
    }
}

// The file's end is told of once nobody has it open any more, be it before its folder's change or behind.
void changes(Actor& a) {
    const std::string folder = fmt::format("{}/{}watched", process.base, a.folder), path = folder + "/w.dat";
    ::mkdir(folder.c_str(), 0755);
    const int notices = a.call_fd("inotify_init1", [&] { return ::inotify_init1(IN_CLOEXEC); });
    ::inotify_add_watch(notices, folder.c_str(), kChanges);
    const int fd = a.call_fd("open", [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); });
    a.note("watch", ::inotify_add_watch(notices, path.c_str(), kChanges));
    const auto data = a.random_bytes(9000);
    a.call("write", [&] { return ::write(fd, data.data(), data.size()); });
    const auto into = a.buffer(3000);
    for (off_t at = 0; at < 9000; at += 3000)
        a.bytes(into.data(), a.call("pread", [&] { return ::pread(fd, into.data(), into.size(), at); }));
    a.call("fchmod", [&] { return ::fchmod(fd, 0640); });
    ::close(fd);
    std::string last = path;
    if (a.rng.chance(20)) {  // its end is then told of later
        last = folder + "/x.idx";
        a.call("rename", [&] { return ::rename(path.c_str(), last.c_str()); });
    }
    a.call("unlink", [&] { return ::unlink(last.c_str()); });
    for (const auto& [watch, lines] : events_of(notices)) a.log += lines;
    a.call("rmdir", [&] { return ::rmdir(folder.c_str()); });
    ::close(notices);
}

// Who reads does not break a lease for reading, nor does it hold up one who writes.
void leases(Actor& a) {
    const int fd = a.open_some(O_RDONLY);
    a.call("F_GETLEASE", [&] { return ::fcntl(fd, F_GETLEASE); });
    if (a.call("F_SETLEASE", [&] { return ::fcntl(fd, F_SETLEASE, F_RDLCK); }) == 0) {
        const auto into = a.buffer(3000);
        a.bytes(into.data(), a.call("read", [&] { return ::read(fd, into.data(), into.size()); }));
        a.call("F_GETLEASE", [&] { return ::fcntl(fd, F_GETLEASE); });
        a.call("F_UNLCK", [&] { return ::fcntl(fd, F_SETLEASE, F_UNLCK); });
    }
    if (fd >= 0) ::close(fd);
}

// Locks that belong to an opening, not to a process.
void opening_locks(Actor& a) {
    const std::string path = a.path(a.file());
    const int one = a.call_fd("open", [&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
    const int two = a.call_fd("open", [&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_start = static_cast<off_t>(a.rng.below(200));
    lock.l_len = 100;
    a.call("F_OFD_SETLK", [&] { return ::fcntl(one, F_OFD_SETLK, &lock); });
    const auto into = a.buffer(3000);
    a.bytes(into.data(), a.call("read", [&] { return ::read(one, into.data(), into.size()); }));
    struct flock other = lock;
    a.call("F_OFD_GETLK", [&] { return ::fcntl(two, F_OFD_GETLK, &other); });
    a.text(fmt::format("{} {} {}", other.l_type, other.l_start, other.l_len));
    a.call("F_OFD_SETLK of another", [&] { return ::fcntl(two, F_OFD_SETLK, &lock); });
    if (one >= 0) ::close(one);
    a.call("F_OFD_SETLK when it is gone", [&] { return ::fcntl(two, F_OFD_SETLK, &lock); });
    if (two >= 0) ::close(two);
}

void signals_to_read(Actor& a) {
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    sigaddset(&set, SIGIO);
    ::pthread_sigmask(SIG_BLOCK, &set, &before);
    const int fd = a.call_fd("signalfd", [&] { return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK); });
    signalfd_siginfo info[4] = {};
    a.call("read of nothing", [&] { return ::read(fd, info, sizeof info); });
    // A change of a folder is told by a signal.
    const int folder = ::open((process.base + "/sub").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    a.call("F_SETSIG", [&] { return ::fcntl(folder, F_SETSIG, SIGRTMIN + 3); });
    a.call("F_NOTIFY", [&] { return ::fcntl(folder, F_NOTIFY, DN_CREATE); });
    const std::string path = process.base + "/sub/noticed.dat";
    const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    a.call("read", [&] { return ::read(fd, info, sizeof info); });
    a.text(fmt::format("signal {} fd {}", info[0].ssi_signo, info[0].ssi_fd == folder));
    ::close(folder);
    ::close(made);
    ::unlink(path.c_str());
    a.call("short read", [&] { return ::read(fd, info, 5); });
    ::close(fd);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void counted(Actor& a) {
    const int counter = a.call_fd("eventfd", [&] { return ::eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC); });
    std::uint64_t value = 0;
    for (int i = 0; i < 3; ++i) {
        a.call("read", [&] { return ::read(counter, &value, sizeof value); });
        a.note("value", static_cast<long>(value));
    }
    a.call("pread", [&] { return ::pread(counter, &value, sizeof value, 0); });
    ::close(counter);
    const int timer =
        a.call_fd("timerfd", [&] { return ::timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC); });
    a.call("read of none", [&] { return ::read(timer, &value, sizeof value); });
    a.call("lseek", [&] { return ::lseek(timer, 0, SEEK_CUR); });
    ::close(timer);
}

}  // namespace

Operations notice_operations() {
    return {{"changes", 2, changes, true, true},
            {"leases", 1, leases, true, true},
            {"opening locks", 2, opening_locks, true, true},
            {"signals to read", 1, signals_to_read, false, true},
            {"counted", 1, counted, true, true}};
}

}  // namespace chainio::random_program
