// A netlink socket by which the kernel's links and addresses are asked for, one question at a time. The news come on
// another one (news_socket.h), which may be missing while this one is there.
#pragma once
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>

namespace chainio::net {

class RouteSocket {
  public:
    RouteSocket() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {}
    ~RouteSocket() {
        if (fd_ >= 0) close(fd_);
    }
    RouteSocket(const RouteSocket&) = delete;
    RouteSocket& operator=(const RouteSocket&) = delete;

    // The request is whole, its header included. False: nothing was asked, and errno says why.
    template <typename Request>
    bool ask(const Request& request) const {
        return fd_ >= 0 && send(fd_, &request, sizeof request, 0) == sizeof request;
    }
    // The bytes of some messages of the answer, which is waited for; 0: there are none.
    std::size_t take(std::span<std::byte> messages) const {
        ssize_t got = 0;
        do {
            got = recv(fd_, messages.data(), messages.size(), 0);
        } while (got < 0 && errno == EINTR);
        return got < 0 ? 0 : static_cast<std::size_t>(got);
    }

  private:
    int fd_;
};

}  // namespace chainio::net
