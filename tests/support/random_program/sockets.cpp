// Sockets of all kinds, alone and with many connections through epoll.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/random_program/actor.h"
#include "tests/support/random_program/address.h"

namespace chainio::random_program {
namespace {

std::uint16_t bound_port(int fd) {
    sockaddr_in address = {};
    socklen_t size = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

// The first process listens on the port that the spec names, the others on any.
int listener(Actor& a) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = local(a.alone && a.depth == 0 ? process.port : 0);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 64) != 0) {
        leave_if_taken();
        std::perror("listen");
        std::_Exit(1);
    }
    return fd;
}

int connect_to(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = local(port);
    // What waits in the accept queue is bounded; a connection that another program's leftovers delay is tried again by
    // TCP.
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::perror("connect");
    return fd;
}

void both_ways(Actor& a, int left, int right) {
    const auto into = a.buffer(9000);
    for (int i = 0; i < 3; ++i) {
        const auto data = a.random_bytes(1 + a.rng.below(3000));
        const int from = i % 2 ? right : left, to = i % 2 ? left : right;
        switch (a.rng.below(4)) {
            case 0: a.call("send", [&] { return ::send(from, data.data(), data.size(), MSG_NOSIGNAL); }); break;
            case 1: a.call("write", [&] { return ::write(from, data.data(), data.size()); }); break;
            case 2: a.call("sendto", [&] { return ::sendto(from, data.data(), data.size(), 0, nullptr, 0); }); break;
            default: {
                iovec parts[2] = {{data.data(), data.size() / 2},
                                  {data.data() + data.size() / 2, data.size() - data.size() / 2}};
                msghdr message = {};
                message.msg_iov = parts;
                message.msg_iovlen = 2;
                a.call("sendmsg", [&] { return ::sendmsg(from, &message, 0); });
            }
        }
        if (a.rng.chance(40))
            a.bytes(into.data(), a.call("peek", [&] { return ::recv(to, into.data(), 1, MSG_PEEK); }));
        if (a.rng.chance(20)) a.call("pread of a socket", [&] { return ::pread(to, into.data(), 5, 0); });
        a.bytes(into.data(), a.call("recv", [&] { return ::recv(to, into.data(), data.size(), MSG_WAITALL); }));
        a.call("recv of nothing", [&] { return ::recv(to, into.data(), 100, MSG_DONTWAIT); });
    }
    a.call("shutdown", [&] { return ::shutdown(left, SHUT_WR); });
    a.call("recv at the end", [&] { return ::recv(right, into.data(), into.size(), 0); });
    a.call("send after shutdown", [&] { return ::send(left, into.data(), 5, MSG_NOSIGNAL); });
}

void pair(Actor& a) {
    int ends[2] = {-1, -1};
    const int kind = a.rng.chance(60) ? SOCK_STREAM : SOCK_SEQPACKET;
    a.call("socketpair", [&] { return ::socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends); });
    if (a.alone) a.text(fmt::format("{} {}", ends[0], ends[1]));
    both_ways(a, ends[0], ends[1]);
    for (const int fd : ends) ::close(fd);
}

void tcp(Actor& a) {
    const int server = listener(a);
    if (a.alone) a.note("listener", server);
    const int client = connect_to(bound_port(server));
    const int accepted =
        a.call_fd("accept4", [&] { return ::accept4(server, nullptr, nullptr, a.rng.chance(50) ? SOCK_NONBLOCK : 0); });
    ::fcntl(accepted, F_SETFL, 0);
    both_ways(a, client, accepted);
    ::fcntl(server, F_SETFL, O_NONBLOCK);
    a.call_fd("accept of nobody", [&] { return ::accept(server, nullptr, nullptr); });
    for (const int fd : {client, accepted, server}) ::close(fd);
}

void udp(Actor& a) {
    const int one = ::socket(AF_INET, SOCK_DGRAM, 0), two = ::socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in address = local(0);
    a.call("bind", [&] { return ::bind(one, reinterpret_cast<const sockaddr*>(&address), sizeof address); });
    address.sin_port = htons(bound_port(one));
    a.call("connect", [&] { return ::connect(two, reinterpret_cast<const sockaddr*>(&address), sizeof address); });
    const auto into = a.buffer(3000);
    const auto data = a.random_bytes(1200);
    a.call("send", [&] { return ::send(two, data.data(), 700, 0); });
    a.bytes(into.data(),
            a.call("recvfrom", [&] { return ::recvfrom(one, into.data(), into.size(), 0, nullptr, nullptr); }));
    iovec out[3], in[3];
    mmsghdr sent[3] = {}, got[3] = {};
    for (std::size_t i = 0; i < 3; ++i) {
        out[i] = {data.data() + 300 * i, 300};
        in[i] = {into.data() + 1000 * i, 1000};
        sent[i].msg_hdr.msg_iov = &out[i];
        got[i].msg_hdr.msg_iov = &in[i];
        sent[i].msg_hdr.msg_iovlen = got[i].msg_hdr.msg_iovlen = 1;
    }
    a.call("sendmmsg", [&] { return ::sendmmsg(two, sent, 3, 0); });
    a.call("recvmmsg", [&] { return ::recvmmsg(one, got, 3, 0, nullptr); });
    std::uint64_t sum = 0;  // the order of datagrams is nobody's promise
    for (std::size_t i = 0; i < 3; ++i) sum += got[i].msg_len + hash_of(into.data() + 1000 * i, got[i].msg_len);
    a.text(fmt::format("datagrams {:016x}", sum));
    a.call("recv of nothing", [&] { return ::recv(one, into.data(), 10, MSG_DONTWAIT); });
    ::close(one);
    ::close(two);
}

// A descriptor of a file that arrives through a socket: nobody has seen it opened.
void passed_descriptor(Actor& a) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    const int file = a.open_some(O_RDONLY);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    char byte = 'x';
    iovec part = {&byte, 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
    a.call("sendmsg", [&] { return ::sendmsg(ends[0], &message, 0); });
    if (file >= 0) ::close(file);
    message.msg_controllen = sizeof control;
    const long got = a.call("recvmsg", [&] { return ::recvmsg(ends[1], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
    int passed = -1;
    if (got == 1 && CMSG_FIRSTHDR(&message)) std::memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
    if (a.alone) a.note("passed", passed);
    const auto into = a.buffer(5000);
    a.bytes(into.data(), a.call("read", [&] { return ::read(passed, into.data(), into.size()); }));
    for (const int fd : ends) ::close(fd);
    a.keep(passed);
}

void named_socket(Actor& a) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string name = fmt::format("{}s{}.dat", process.in_sub ? "../" : "",
                                         a.folder.empty() ? "" : a.folder.substr(0, a.folder.size() - 1));
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
              client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.call("bind", [&] { return ::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address); });
    a.call("listen", [&] { return ::listen(server, 4); });
    a.call("connect", [&] { return ::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address); });
    a.call_fd("open of a socket", [&] { return ::open(address.sun_path, O_RDONLY); });
    const int accepted = a.call_fd("accept", [&] { return ::accept(server, nullptr, nullptr); });
    both_ways(a, client, accepted);
    for (const int fd : {server, client, accepted}) ::close(fd);
    a.call("unlink", [&] { return ::unlink(address.sun_path); });
}

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

Operations socket_operations() {
    return {{"pair", 3, pair, true, true},
            {"tcp", 3, tcp, true, true},
            {"udp", 2, udp, true, true},
            {"passed", 2, passed_descriptor, true, true},
            {"named", 1, named_socket, false, true},
            {"web", 2, web_server, false, false}};
}

}  // namespace chainio::random_program
