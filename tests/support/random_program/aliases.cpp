// The same functions by the rarer of their names: those that libc has for itself, for its headers' checks and for files
// of more than 2 GiB.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/random_program/actor.h"

extern "C" {
int __open(const char*, int, ...);
int __open64(const char*, int, ...);
int __openat64_2(int, const char*, int);
ssize_t __read(int, void*, size_t);
ssize_t __pread64(int, void*, size_t, off64_t);
int __close(int);
int __dup2(int, int);
int __fcntl(int, int, ...);
int _IO_getc(FILE*);
char* __fgets_chk(char*, size_t, int, FILE*);
char* __fgets_unlocked_chk(char*, size_t, int, FILE*);
size_t __fread_unlocked_chk(void*, size_t, size_t, size_t, FILE*);
ssize_t __getdelim(char**, size_t*, int, FILE*);
int __poll(pollfd*, nfds_t, int);
int __poll_chk(pollfd*, nfds_t, int, size_t);
int __ppoll_chk(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t);
int __select(int, fd_set*, fd_set*, fd_set*, timeval*);
ssize_t __recv_chk(int, void*, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void*, size_t, size_t, int, sockaddr*, socklen_t*);
}

namespace chainio::random_program {
namespace {

int open_by(Actor& a, const char* name) {
    switch (a.rng.below(3)) {
        case 0: return a.call_fd("__open", [&] { return ::__open(name, O_RDONLY | O_CLOEXEC); });
        case 1: return a.call_fd("__open64", [&] { return ::__open64(name, O_RDWR | O_CLOEXEC); });
        default: return a.call_fd("__openat64_2", [&] { return ::__openat64_2(AT_FDCWD, name, O_RDWR | O_CLOEXEC); });
    }
}

void descriptors(Actor& a) {
    const std::string path = a.path(a.file());
    const int fd = open_by(a, path.c_str());
    const auto into = a.buffer(3000);
    a.call("posix_fadvise64", [&] { return ::posix_fadvise64(fd, 0, 0, POSIX_FADV_RANDOM); });
    a.bytes(into.data(), a.call("__read", [&] { return ::__read(fd, into.data(), 3000); }));
    a.bytes(into.data(), a.call("__pread64", [&] { return ::__pread64(fd, into.data(), 3000, 500); }));
    const iovec part = {into.data(), 2000};
    a.bytes(into.data(), a.call("preadv64v2", [&] { return ::preadv64v2(fd, &part, 1, -1, 0); }));
    const int copy = a.call_fd("fcntl64", [&] { return ::fcntl64(fd, F_DUPFD_CLOEXEC, 3); });
    a.call("__fcntl", [&] { return ::__fcntl(copy, F_GETFD); });
    if (fd >= 0 && copy >= 0) a.call("__dup2", [&] { return ::__dup2(fd, copy) == copy; });
    a.bytes(into.data(), a.call("__read", [&] { return ::__read(copy, into.data(), 500); }));
    a.position(fd);
    if (fd >= 0) a.call("__close", [&] { return ::__close(fd); });
    if (copy >= 0) a.call("__close", [&] { return ::__close(copy); });
}

void streams(Actor& a) {
    const std::string path = a.path(a.file()), other = a.path(a.file());
    std::FILE* file = ::fopen64(path.c_str(), "r");
    a.note("fopen64", file != nullptr);
    if (!file) return;
    char some[300] = {};
    fpos64_t place = {};
    a.call("fgetpos64", [&] { return ::fgetpos64(file, &place); });
    a.call("_IO_getc", [&] { return ::_IO_getc(file); });
    a.call("fgetc_unlocked", [&] { return ::fgetc_unlocked(file); });
    a.call("fgets_unlocked", [&] { return ::fgets_unlocked(some, 100, file) != nullptr; });
    a.call("__fgets_chk", [&] { return ::__fgets_chk(some, sizeof some, 200, file) != nullptr; });
    a.call("__fgets_unlocked_chk", [&] { return ::__fgets_unlocked_chk(some, sizeof some, 50, file) != nullptr; });
    a.bytes(some, sizeof some);
    a.call("fsetpos64", [&] { return ::fsetpos64(file, &place); });
    a.bytes(some, a.call("__fread_unlocked_chk",
                         [&] { return static_cast<long>(::__fread_unlocked_chk(some, sizeof some, 1, 250, file)); }));
    file = ::freopen64(other.c_str(), "r", file);
    a.note("freopen64", file != nullptr);
    if (!file) return;
    char* line = nullptr;
    std::size_t room = 0;
    const long got = a.call("__getdelim", [&] { return ::__getdelim(&line, &room, 'x', file); });
    a.bytes(line, got);
    std::free(line);
    a.call("fclose", [&] { return std::fclose(file); });
}

void waits(Actor& a) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    if (::write(ends[1], "some bytes", 10) != 10) std::abort();
    pollfd one = {.fd = ends[0], .events = POLLIN, .revents = 0};
    timespec none = {};
    timeval at_once = {};
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(ends[0], &readable);
    a.call("__poll", [&] { return ::__poll(&one, 1, 0); });
    a.call("__poll_chk", [&] { return ::__poll_chk(&one, 1, 0, sizeof one); });
    a.call("__ppoll_chk", [&] { return ::__ppoll_chk(&one, 1, &none, nullptr, sizeof one); });
    a.call("__select", [&] { return ::__select(ends[0] + 1, &readable, nullptr, nullptr, &at_once); });
    a.call("pselect", [&] { return ::pselect(ends[0] + 1, &readable, nullptr, nullptr, &none, nullptr); });
    const int poll = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {.events = EPOLLIN, .data = {.u32 = 5}};
    a.call("add", [&] { return ::epoll_ctl(poll, EPOLL_CTL_ADD, ends[0], &event); });
    a.call("epoll_pwait2", [&] { return ::epoll_pwait2(poll, &event, 1, &none, nullptr); });
    char into[20] = {};
    a.bytes(into, a.call("__recv_chk", [&] { return ::__recv_chk(ends[0], into, 4, sizeof into, 0); }));
    a.bytes(into, a.call("__recvfrom_chk", [&] {
        return ::__recvfrom_chk(ends[0], into, 9, sizeof into, MSG_DONTWAIT, nullptr, nullptr);
    }));
    for (const int fd : {poll, ends[0], ends[1]}) ::close(fd);
}

}  // namespace

Operations alias_operations() {
    return {{"aliases of descriptors", 3, descriptors, true, true},
            {"aliases of streams", 2, streams, true, true},
            {"aliases of waits", 1, waits, true, true}};
}

}  // namespace chainio::random_program
