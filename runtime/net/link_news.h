// Says that interfaces were made, removed, switched on or off, changed, or have got or lost addresses.
#pragma once
#include <memory>
#include <optional>
#include <vector>

struct nl_sock;

namespace chainio::net {

struct LinkChanges {
    std::vector<unsigned> removed;  // numbers of interfaces; one may belong to another interface by now
    std::vector<unsigned> changed;  // likewise; nobody looks at what has changed
    bool addresses = false;         // some interface may have others
    bool missed = false;            // more was said than could be kept: any may have changed
};

class LinkNews {
  public:
    // Of the interfaces in the process's network namespace. Nothing where the process may have no netlink socket.
    static std::optional<LinkNews> subscribe();
    // Readable when there is something that take() has not taken.
    int fd() const;
    // What has happened since the last time, if anything has; what it does not say is to be asked for.
    std::optional<LinkChanges> take();

  private:
    struct Close {
        void operator()(nl_sock* socket) const;
    };
    explicit LinkNews(std::unique_ptr<nl_sock, Close> socket) : socket_(std::move(socket)) {}
    std::unique_ptr<nl_sock, Close> socket_;
};

}  // namespace chainio::net
