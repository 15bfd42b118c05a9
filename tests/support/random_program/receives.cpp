// Receives that leave bytes where they are, throw some away, wait for all or say what the kernel knows of them: of
// sockets that a spec names and of others.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/support/random_program/actor.h"
#include "tests/support/random_program/address.h"

namespace chainio::random_program {
namespace {

template <class Call>
int with_address(Call call, int fd, std::uint16_t port) {
    const sockaddr_in address = local(port);
    return call(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// Two ends of a connection to a port.
struct Connection {
    int here = -1, there = -1;
    explicit Connection(std::uint16_t port) {
        const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
        ::setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in address = {};
        socklen_t size = sizeof address;
        if (with_address(::bind, server, port) == 0 && ::listen(server, 4) == 0 &&
            ::getsockname(server, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
            here = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            with_address(::connect, here, ntohs(address.sin_port));
            there = ::accept4(server, nullptr, nullptr, SOCK_CLOEXEC);
        } else {
            leave_if_taken();
        }
        ::close(server);
    }
    ~Connection() {
        ::close(here);
        ::close(there);
    }
    Connection(const Connection&) = delete;
};

// The port that the spec names is the first process's.
std::uint16_t port_for(const Actor& a) { return a.alone && a.depth == 0 ? process.port : std::uint16_t{0}; }

// What has been sent has come when so much can be received.
void wait_for(int fd, int bytes) {
    for (int held = 0; held < bytes;) {
        pollfd one = {.fd = fd, .events = POLLIN, .revents = 0};
        if (::poll(&one, 1, -1) < 0 || ::ioctl(fd, FIONREAD, &held) != 0) return;
    }
}

constexpr int kFlags[] = {0,
                          MSG_PEEK,
                          MSG_PEEK | MSG_TRUNC,
                          MSG_TRUNC,
                          MSG_DONTWAIT,
                          MSG_WAITALL,
                          MSG_PEEK | MSG_WAITALL,
                          MSG_WAITALL | MSG_TRUNC,
                          MSG_DONTWAIT | MSG_PEEK};

// With MSG_TRUNC nothing is written of a stream: the memory stays what it was.
void receive_one(Actor& a, int fd) {
    const int flags = a.rng.of(kFlags);
    const auto into = a.buffer(200);
    const std::string what = fmt::format("flags {:x}", flags);
    switch (a.rng.below(4)) {
        case 0: a.call("recv " + what, [&] { return ::recv(fd, into.data(), 60, flags); }); break;
        case 1:
            a.call("recvfrom " + what, [&] { return ::recvfrom(fd, into.data(), 60, flags, nullptr, nullptr); });
            break;
        case 2: a.call("read", [&] { return ::read(fd, into.data(), 60); }); break;
        default: {
            iovec parts[2] = {{into.data(), a.rng.below(40)}, {into.data() + 100, 40}};
            msghdr message = {};
            message.msg_iov = parts;
            message.msg_iovlen = 2;
            a.call("recvmsg " + what, [&] { return ::recvmsg(fd, &message, flags); });
            a.note("flags", message.msg_flags);
        }
    }
    a.bytes(into.data(), 200);
}

void stream(Actor& a) {
    const Connection ends(port_for(a));
    if (ends.there < 0) return a.text("no connection");
    if (a.rng.chance(30)) {
        const int at = static_cast<int>(a.rng.below(20));
        a.call("SO_PEEK_OFF", [&] { return ::setsockopt(ends.there, SOL_SOCKET, SO_PEEK_OFF, &at, sizeof at); });
    }
    const auto data = a.random_bytes(1000);
    a.call("send", [&] { return ::send(ends.here, data.data(), data.size(), 0); });
    wait_for(ends.there, 1000);
    pollfd one = {.fd = ends.there, .events = POLLIN, .revents = 0};
    for (int i = 0; i < 8; ++i) {
        if (a.rng.chance(40)) a.call("poll", [&] { return ::poll(&one, 1, 0); });
        receive_one(a, ends.there);
        int held = 0;
        a.call("FIONREAD", [&] { return ::ioctl(ends.there, FIONREAD, &held); });
        a.note("held", held);
    }
    int at = 0;
    socklen_t size = sizeof at;
    a.call("getsockopt", [&] { return ::getsockopt(ends.there, SOL_SOCKET, SO_PEEK_OFF, &at, &size); });
    a.note("peeks at", at);
}

// One byte that is out of band stays where it is, and stops a receive.
void urgent(Actor& a) {
    const Connection ends(port_for(a));
    if (ends.there < 0) return a.text("no connection");
    char into[100] = {};
    if (::send(ends.here, "before", 6, 0) != 6 || ::send(ends.here, "!", 1, MSG_OOB) != 1) return a.text("no send");
    if (::send(ends.here, "behind", 6, 0) != 6) return a.text("no send");
    pollfd one = {.fd = ends.there, .events = POLLPRI, .revents = 0};
    a.call("poll", [&] { return ::poll(&one, 1, -1); });
    wait_for(ends.there, 6);  // what is in front of it
    one.events = POLLIN | POLLPRI;
    a.call("poll", [&] { return ::poll(&one, 1, -1); });
    a.note("events", one.revents);
    a.bytes(into, a.call("recv", [&] { return ::recv(ends.there, into, sizeof into, 0); }));
    a.call("sockatmark", [&] { return ::sockatmark(ends.there); });
    a.bytes(into, a.call("out of band", [&] { return ::recv(ends.there, into, 1, MSG_OOB); }));
    a.bytes(into, a.call("recv", [&] { return ::recv(ends.there, into, sizeof into, 0); }));
    a.call("out of band again", [&] { return ::recv(ends.there, into, 1, MSG_OOB); });
}

// A connection that is reset says so once, to the program.
void reset(Actor& a) {
    const Connection ends(port_for(a));
    if (ends.there < 0) return a.text("no connection");
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(ends.here, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    const bool leaves_bytes = a.rng.chance(50);
    if (leaves_bytes && ::send(ends.here, "bytes", 5, 0) == 5) wait_for(ends.there, 5);
    const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::dup3(other, ends.here, O_CLOEXEC);
    ::close(other);
    pollfd one = {.fd = ends.there, .events = POLLRDHUP, .revents = 0};
    ::poll(&one, 1, -1);
    one.events = POLLIN;
    a.call("poll", [&] { return ::poll(&one, 1, -1); });
    a.note("events", one.revents);
    char into[10] = {};
    for (int i = 0; i < 3; ++i) a.call("recv", [&] { return ::recv(ends.there, into, sizeof into, 0); });
}

// Datagrams that are longer than the memory for them, empty ones, several at a time, and one that nobody takes.
void datagrams(Actor& a) {
    const int to = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
              from = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    socklen_t size = sizeof address;
    if (with_address(::bind, to, port_for(a)) != 0) {
        leave_if_taken();
        a.text("no port");
    }
    ::getsockname(to, reinterpret_cast<sockaddr*>(&address), &size);
    with_address(::connect, from, ntohs(address.sin_port));
    const auto data = a.random_bytes(600);
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{0}, std::size_t{600}, std::size_t{30}}) {
        a.call("send", [&] { return ::send(from, data.data(), bytes, 0); });
        pollfd one = {.fd = to, .events = POLLIN, .revents = 0};
        a.call("poll", [&] { return ::poll(&one, 1, -1); });
        static constexpr int kOf[] = {0, MSG_TRUNC, MSG_PEEK, MSG_PEEK | MSG_TRUNC};
        const int flags = a.rng.of(kOf);
        const auto into = a.buffer(200);
        a.call(fmt::format("recv {:x}", flags), [&] { return ::recv(to, into.data(), 60, flags); });
        a.bytes(into.data(), 200);
        iovec part = {into.data(), 60};
        mmsghdr several[2] = {};
        for (mmsghdr& each : several) each.msg_hdr.msg_iov = &part, each.msg_hdr.msg_iovlen = 1;
        a.call("recvmmsg", [&] { return ::recvmmsg(to, several, 2, MSG_DONTWAIT, nullptr); });
        a.note("cut", several[0].msg_hdr.msg_flags);
    }
    ::close(to);
    char byte = 'x';
    a.call("send to nobody", [&] { return ::send(from, &byte, 1, 0); });
    pollfd one = {.fd = from, .events = POLLIN, .revents = 0};
    a.call("poll", [&] { return ::poll(&one, 1, -1); });
    a.call("recv of nobody", [&] { return ::recv(from, &byte, 1, MSG_DONTWAIT); });
    a.call("recv of nothing", [&] { return ::recv(from, &byte, 1, MSG_DONTWAIT); });
    ::close(from);
}

// Memory that is not there is the kernel's to refuse; what waits goes on waiting.
void to_nowhere(Actor& a) {
    const Connection ends(port_for(a));
    if (ends.there < 0) return a.text("no connection");
    if (::send(ends.here, "some bytes", 10, 0) != 10) return;
    wait_for(ends.there, 10);
    char into[20] = {};
    const iovec none = {nullptr, 5}, empty[2] = {{nullptr, 0}, {into, 3}};
    msghdr message = {};
    a.call("recvmsg to no vectors", [&] { return ::recvmsg(ends.there, &message, MSG_DONTWAIT); });
    a.call("recv to nowhere", [&] { return ::recv(ends.there, nullptr, 5, 0); });
    a.call("readv to nowhere", [&] { return ::readv(ends.there, &none, 1); });
    a.call("readv of no vectors", [&] { return ::readv(ends.there, nullptr, 2); });
    a.bytes(into, a.call("readv behind nothing", [&] { return ::readv(ends.there, empty, 2); }));
    a.call("recv of nothing", [&] { return ::recv(ends.there, into, 0, 0); });
    a.bytes(into, a.call("recv", [&] { return ::recv(ends.there, into, sizeof into, 0); }));
}

}  // namespace

Operations receive_operations() {
    return {{"stream", 3, stream, true, true},
            {"urgent", 1, urgent, true, true},
            {"reset", 2, reset, true, true},
            {"datagrams", 2, datagrams, true, true},
            {"to nowhere", 1, to_nowhere, true, true}};
}

}  // namespace chainio::random_program
