// A web server and its clients: many connections through epoll, and files that go out.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/random_program/actor.h"
#include "tests/support/random_program/address.h"

namespace chainio::random_program {
namespace {

void answer(int fd, const char* request, bool by_sendfile) {
    char path[256] = {};
    std::sscanf(request, "GET /%200s HTTP", path);
    const std::string root = process.base.substr(0, process.base.rfind('/'));  // of all programs
    const int file = ::open((root + "/" + path).c_str(), O_RDONLY | O_CLOEXEC);
    struct stat st = {};
    if (file >= 0) ::fstat(file, &st);
    const auto size = static_cast<std::size_t>(st.st_size);
    std::uint64_t head = size;
    if (by_sendfile) {
        ::send(fd, &head, sizeof head, MSG_NOSIGNAL | MSG_MORE);
        for (off_t at = 0; at < st.st_size;) {
            if (::sendfile(fd, file, &at, size - static_cast<std::size_t>(at)) <= 0) break;
        }
    } else {
        std::vector<std::uint8_t> body(size);
        const ssize_t got = file >= 0 ? ::pread(file, body.data(), size, 0) : 0;
        const iovec parts[2] = {{&head, sizeof head}, {body.data(), got > 0 ? static_cast<std::size_t>(got) : 0}};
        if (::writev(fd, parts, 2) < 0) std::perror("writev");
    }
    if (file >= 0) ::close(file);
}

// One thread, many connections: what a web server does.
void serve(int server, unsigned connections, bool by_sendfile) {
    const int poll = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event = {.events = EPOLLIN, .data = {.fd = server}};
    ::epoll_ctl(poll, EPOLL_CTL_ADD, server, &event);
    for (unsigned closed = 0; closed < connections;) {
        epoll_event ready[8];
        const int count = ::epoll_wait(poll, ready, 8, -1);
        for (int i = 0; i < count; ++i) {
            const int fd = ready[i].data.fd;
            if (fd == server) {
                event.data.fd = ::accept4(server, nullptr, nullptr, SOCK_CLOEXEC);
                ::epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            char request[300] = {};
            if (::recv(fd, request, sizeof request - 1, 0) > 0) {
                answer(fd, request, by_sendfile);
            } else {
                ::close(fd);
                ++closed;
            }
        }
    }
    ::close(poll);
}

// In a process that never had another thread, which may do more for itself.
pid_t serve_alone(int server, unsigned connections, bool by_sendfile) {
    const std::string fd = std::to_string(server), count = std::to_string(connections);
    const pid_t made = ::fork();
    if (made != 0) return made;
    ::fcntl(server, F_SETFD, 0);
    ::execl(process.program.c_str(), process.program.c_str(), "--helper", "serve", fd.c_str(), count.c_str(),
            by_sendfile ? "1" : "0", process.base.c_str(), nullptr);
    std::_Exit(1);
}

constexpr unsigned kAskedFor[] = {0, 1, 4, 5};  // files

std::string client_of(std::uint16_t port, std::uint64_t seed) {
    Rng rng(seed);
    std::string log;
    const int fd = connect_to(port);
    for (int i = 0; i < 4; ++i) {
        const std::string request = fmt::format("GET {}/f{}.dat HTTP/1.1\r\n\r\n",
                                                process.base.substr(process.base.rfind('/')), rng.of(kAskedFor));
        std::uint64_t size = 0;
        if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) break;
        const ssize_t got = ::recv(fd, &size, sizeof size, MSG_WAITALL);
        std::vector<std::uint8_t> body(size < 1'000'000 ? size : 0);
        if (got == sizeof size && size > 0) ::recv(fd, body.data(), body.size(), MSG_WAITALL);
        log += fmt::format("    {} {} {:016x}\n", got, size, hash_of(body.data(), body.size()));
    }
    ::close(fd);
    return log;
}

// What clients ask for may have to come from the disk: otherwise nobody has anything to bring.
void drop_from_memory(const Actor& a) {
    for (const unsigned file : kAskedFor) {
        const int fd = ::open((process.base + "/" + a.plain_path(file)).c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ::fdatasync(fd);
        ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        ::close(fd);
    }
}

void web_server(Actor& a) {
    if (a.rng.chance(70)) drop_from_memory(a);
    const int server = listener(a);
    const std::uint16_t port = bound_port(server);
    const auto clients = static_cast<unsigned>(1 + a.rng.below(4));
    std::vector<std::string> logs(clients);
    const bool by_sendfile = a.rng.chance(50);
    const pid_t child = a.rng.chance(50) ? serve_alone(server, clients, by_sendfile) : -1;
    {
        std::vector<std::jthread> threads;
        if (child < 0) threads.emplace_back(serve, server, clients, by_sendfile);
        for (unsigned i = 0; i < clients; ++i) {
            threads.emplace_back([&logs, i, port, seed = a.rng.next()] { logs[i] = client_of(port, seed); });
        }
    }
    int status = 0;
    if (child > 0) ::waitpid(child, &status, 0);
    a.note("status", status);
    for (const std::string& log : logs) a.log += log;
    ::close(server);
}

}  // namespace

int run_server(char** words) {
    process.base = words[3];
    serve(std::atoi(words[0]), static_cast<unsigned>(std::atoi(words[1])), *words[2] == '1');
    return 0;
}

Operations web_operations() { return {{"web", 2, web_server, false, false}}; }

}  // namespace chainio::random_program
