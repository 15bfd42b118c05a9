// Each interposed function that a class has no part in, called in turns as libc has it and as the program finds it. The
// two differ only when the library is preloaded.
//
// measure_calls() prints a line for each: name, median nanoseconds as libc has it, and the median of what the other
// takes more.
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/shim/raw.h"
#include "tests/bench/shim/calls.h"

namespace {

using chainio::shim::raw_call;
using Lookup = void* (*)(void*, const char*);

double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);  // the machine may be busy with others
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> all) {
    std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    return all[all.size() / 2];
}

// libc's own dlsym, which the library cannot answer in its place: a look-up with a version in libc alone.
Lookup libc_lookup(void* libc) {
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"})
        if (void* found = dlvsym(libc, "dlsym", version)) return reinterpret_cast<Lookup>(found);
    std::exit(1);
}

// `use` makes the calls that are measured through the pointer that it gets, and all others as system calls.
template <class Function, class Use>
void measure(Function* /* type only */, const char* name, const char* shown, Use use) {
    static void* const libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
    static const Lookup lookup = libc_lookup(libc);
    auto* plain = reinterpret_cast<Function*>(lookup(libc, name));
    auto* found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
    if (!plain || !found) return;
    constexpr int kBursts = 100, kCalls = 500;
    const auto burst = [&](Function* function) {
        const double before = now();
        for (int i = 0; i < kCalls; ++i) use(function);
        return (now() - before) / kCalls;
    };
    burst(plain);
    burst(found);
    std::vector<double> times, more;
    for (int i = 0; i < kBursts; ++i) {
        const double first = burst(i % 2 == 0 ? plain : found), second = burst(i % 2 == 0 ? found : plain);
        times.push_back(i % 2 == 0 ? first : second);
        more.push_back(i % 2 == 0 ? second - first : first - second);
    }
    std::printf("%s\t%.2f\t%.2f\n", shown, median(times), median(more));
}
#define MEASURE(name, ...) measure(static_cast<decltype(&::name)>(nullptr), #name, #name, __VA_ARGS__)
#define MEASURE_AS(name, shown, ...) measure(static_cast<decltype(&::name)>(nullptr), #name, shown, __VA_ARGS__)

char bytes[8192];

void raw_close(long fd) { raw_call(SYS_close, fd); }

void opens(const std::string& folder) {
    const std::string absolute = folder + "/a.log", alike = folder + "/a.txt", elsewhere = folder + "/a.dat";
    if (chdir(folder.c_str()) != 0) std::exit(1);
    MEASURE_AS(open, "open, absolute", [&](auto call) { raw_close(call(absolute.c_str(), O_RDONLY)); });
    MEASURE_AS(open, "open, relative", [&](auto call) { raw_close(call("a.log", O_RDONLY)); });
    MEASURE_AS(open, "open, last letter as a class's", [&](auto call) { raw_close(call(alike.c_str(), O_RDONLY)); });
    MEASURE_AS(open, "open, last part as a class's", [&](auto call) { raw_close(call(elsewhere.c_str(), O_RDONLY)); });
    MEASURE_AS(open, "open, no such file", [&](auto call) { call("none", O_RDONLY); });
    MEASURE(openat, [&](auto call) { raw_close(call(AT_FDCWD, absolute.c_str(), O_RDONLY)); });
    MEASURE(creat, [&](auto call) { raw_close(call(absolute.c_str(), 0600)); });
    MEASURE_AS(rename, "rename to its own name", [&](auto call) { call("a.log", "a.log"); });
    MEASURE(unlink, [&](auto call) {
        raw_call(SYS_linkat, AT_FDCWD, reinterpret_cast<long>("a.log"), AT_FDCWD, reinterpret_cast<long>("b.log"), 0);
        call("b.log");
    });
    MEASURE(fopen, [&](auto call) {
        std::FILE* file = call(absolute.c_str(), "r");
        if (file) std::fclose(file);
    });
    MEASURE(fclose, [&](auto call) {
        std::FILE* file = fdopen(static_cast<int>(raw_call(SYS_dup, 0)), "r");
        if (file) call(file);
    });
}

void descriptors(int fd) {
    struct stat status;
    const auto copy = [fd] { return static_cast<int>(raw_call(SYS_dup, fd)); };
    const int other = copy();
    MEASURE(close, [&](auto call) { call(copy()); });
    MEASURE(close_range, [&](auto call) { call(60'000, 60'001, 0); });
    MEASURE(dup, [&](auto call) { raw_close(call(fd)); });
    MEASURE(dup2, [&](auto call) { call(fd, other); });
    MEASURE(dup3, [&](auto call) { call(fd, other, O_CLOEXEC); });
    MEASURE_AS(fcntl, "fcntl F_GETFL", [&](auto call) { call(fd, F_GETFL, 0); });
    MEASURE_AS(fcntl, "fcntl F_DUPFD", [&](auto call) { raw_close(call(fd, F_DUPFD, 3)); });
    MEASURE(lseek, [&](auto call) { call(fd, 0, SEEK_SET); });
    MEASURE(fstat, [&](auto call) { call(fd, &status); });
    MEASURE(stat, [&](auto call) { call("a.log", &status); });
    MEASURE(pwrite, [&](auto call) { call(fd, bytes, 1, 0); });
    MEASURE_AS(syscall, "syscall, getppid", [&](auto call) { call(SYS_getppid); });
    MEASURE_AS(syscall, "syscall, pread64", [&](auto call) { call(SYS_pread64, fd, bytes, 1, 0); });
    MEASURE(prctl, [&](auto call) { call(PR_GET_DUMPABLE); });
    raw_close(other);
}

void reads(int fd) {
    const iovec parts[2] = {{bytes, 1}, {bytes + 1, 1}};
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0) std::exit(1);
    const int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    MEASURE(read, [&](auto call) { return call(zero, bytes, 1); });
    MEASURE_AS(read, "read, nothing there", [&](auto call) { return call(ends[0], bytes, 1); });
    MEASURE(pread, [&](auto call) { return call(fd, bytes, 1, 0); });
    MEASURE_AS(pread64, "pread64, 4 KiB", [&](auto call) { return call(fd, bytes, 4096, 0); });
    MEASURE(readv, [&](auto call) { return call(zero, parts, 2); });
    MEASURE(preadv, [&](auto call) { return call(fd, parts, 2, 0); });
    MEASURE(preadv2, [&](auto call) { return call(fd, parts, 2, 0, 0); });
    MEASURE(sendfile, [&](auto call) {
        off_t at = 0;
        call(null, fd, &at, 1);
    });
    MEASURE(splice, [&](auto call) { call(ends[0], nullptr, null, nullptr, 1, SPLICE_F_NONBLOCK); });
    MEASURE(copy_file_range, [&](auto call) { call(fd, nullptr, null, nullptr, 1, 0); });
    void* place = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MEASURE(mmap, [&](auto call) { call(place, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0); });
    MEASURE_AS(mmap, "mmap, anonymous",
               [&](auto call) { call(place, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0); });
    munmap(place, 4096);
    for (const int each : {ends[0], ends[1], zero, null}) raw_close(each);
}

void buffered() {
    std::FILE* file = std::fopen("/dev/zero", "r");
    std::FILE* lines = std::fopen("a.lines", "r");
    if (!file || !lines) std::exit(1);
    char* line = nullptr;
    std::size_t room = 0;
    MEASURE_AS(fread, "fread, from its buffer", [&](auto call) { return call(bytes, 1, 16, file); });
    MEASURE(fgetc, [&](auto call) { call(file); });
    MEASURE(getline, [&](auto call) {
        if (call(&line, &room, lines) < 0) std::rewind(lines);
    });
    MEASURE(fseek, [&](auto call) { call(file, 100, SEEK_SET); });
    std::free(line);
    std::fclose(file);
    std::fclose(lines);
}

void waits() {
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "x", 1) != 1) std::exit(1);
    const int epoll = epoll_create1(0);
    epoll_event event = {.events = EPOLLIN, .data = {.fd = ends[0]}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    MEASURE(epoll_ctl, [&](auto call) { call(epoll, EPOLL_CTL_MOD, ends[0], &event); });
    epoll_event got[4];
    MEASURE(epoll_wait, [&](auto call) { call(epoll, got, 4, 0); });
    MEASURE(epoll_pwait, [&](auto call) { call(epoll, got, 4, 0, nullptr); });
    pollfd one = {.fd = ends[0], .events = POLLIN, .revents = 0};
    MEASURE(poll, [&](auto call) { call(&one, 1, 0); });
    const timespec at_once{};
    MEASURE(ppoll, [&](auto call) { call(&one, 1, &at_once, nullptr); });
    MEASURE(select, [&](auto call) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        timeval none{};
        call(ends[0] + 1, &set, nullptr, nullptr, &none);
    });
    for (const int each : {ends[0], ends[1], epoll}) raw_close(each);
}

void receives() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends) != 0) std::exit(1);
    iovec part = {bytes, 16};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    mmsghdr messages[1] = {{.msg_hdr = message, .msg_len = 0}};
    const auto give = [&] { raw_call(SYS_sendto, ends[1], reinterpret_cast<long>(bytes), 1, 0, 0, 0); };
    MEASURE(recv, [&](auto call) { return give(), call(ends[0], bytes, 16, 0); });
    MEASURE(recvfrom, [&](auto call) { return give(), call(ends[0], bytes, 16, 0, nullptr, nullptr); });
    MEASURE(recvmsg, [&](auto call) { return give(), call(ends[0], &message, 0); });
    MEASURE(recvmmsg, [&](auto call) { return give(), call(ends[0], messages, 1, 0, nullptr); });
    MEASURE(send, [&](auto call) { return call(ends[1], bytes, 1, MSG_DONTWAIT); });
    raw_close(ends[0]);
    raw_close(ends[1]);
}

void sockets() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t room = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, generic, sizeof address) != 0 || listen(listener, 4) != 0) std::exit(1);
    MEASURE_AS(accept, "accept, nobody there", [&](auto call) { call(listener, nullptr, nullptr); });
    MEASURE_AS(listen, "listen, again", [&](auto call) { call(listener, 4); });
    getsockname(listener, generic, &room);
    const int udp = socket(AF_INET, SOCK_DGRAM, 0);
    MEASURE_AS(connect, "connect, UDP", [&](auto call) { call(udp, generic, sizeof address); });
    sockaddr_in free = address;
    free.sin_port = htons(static_cast<std::uint16_t>(ntohs(address.sin_port) ^ 1));
    MEASURE_AS(bind, "bind, of a new UDP socket", [&](auto call) {
        const long fd = raw_call(SYS_socket, AF_INET, SOCK_DGRAM, 0);
        call(static_cast<int>(fd), reinterpret_cast<sockaddr*>(&free), sizeof free);
        raw_close(fd);
    });
    raw_close(listener);
    raw_close(udp);
}

}  // namespace

int chainio::bench_shim::measure_calls(const std::string& folder) {
    opens(folder);
    const int fd = open("a.log", O_RDWR);
    if (fd < 0 || ftruncate(fd, sizeof bytes) != 0) return 1;
    descriptors(fd);
    reads(fd);
    buffered();
    waits();
    receives();
    sockets();
    return 0;
}
