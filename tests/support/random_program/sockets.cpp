// Sockets of all kinds: both ways, datagrams, descriptors that are passed, names in the file system.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/support/random_program/actor.h"
#include "tests/support/random_program/address.h"

namespace chainio::random_program {
namespace {

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

}  // namespace

Operations socket_operations() {
    return {{"pair", 3, pair, true, true},
            {"tcp", 3, tcp, true, true},
            {"udp", 2, udp, true, true},
            {"passed", 2, passed_descriptor, true, true},
            {"named", 1, named_socket, false, true}};
}

}  // namespace chainio::random_program
