#include "runtime/net/news_socket.h"

#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include <cerrno>

namespace chainio::net {

void NewsSocket::Close::operator()(nl_sock* socket) const { nl_socket_free(socket); }

std::optional<NewsSocket> NewsSocket::connect(int protocol) {
    std::unique_ptr<nl_sock, Close> socket(nl_socket_alloc());
    if (socket == nullptr || nl_connect(socket.get(), protocol) != 0) return std::nullopt;
    return NewsSocket(std::move(socket));
}

bool NewsSocket::join(int group) { return group >= 0 && nl_socket_add_membership(socket_.get(), group) == 0; }

int NewsSocket::fd() const { return nl_socket_get_fd(socket_.get()); }

std::optional<NewsSocket::Heard> NewsSocket::take(std::span<std::byte> message) {
    for (;;) {
        const ssize_t got = recv(fd(), message.data(), message.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (got >= 0) return Heard{static_cast<std::size_t>(got), false};
        if (errno == ENOBUFS) return Heard{0, true};
        if (errno != EINTR) return std::nullopt;
    }
}

}  // namespace chainio::net
