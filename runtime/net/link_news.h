// Says that interfaces were made, removed, switched on or off, or have got or lost addresses.
#pragma once
#include <memory>
#include <optional>
#include <vector>

struct nl_sock;

namespace chainio::net {

class LinkNews {
  public:
    // Of the interfaces in the process's network namespace. Nothing where the process may have no netlink socket.
    static std::optional<LinkNews> subscribe();
    // Readable when there is something that take() has not taken.
    int fd() const;
    // What has happened since the last time: nothing, or something, and then the numbers of interfaces that were
    // removed; all else is to be asked for. A number may belong to another interface by now.
    std::optional<std::vector<unsigned>> take();

  private:
    struct Close {
        void operator()(nl_sock* socket) const;
    };
    explicit LinkNews(std::unique_ptr<nl_sock, Close> socket) : socket_(std::move(socket)) {}
    std::unique_ptr<nl_sock, Close> socket_;
};

}  // namespace chainio::net
