// Says that interfaces were made, removed, switched on or off, changed, or have got or lost addresses.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "runtime/net/news_socket.h"

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
    int fd() const { return socket_.fd(); }
    // What has happened since the last time, if anything has; what it does not say is to be asked for.
    std::optional<LinkChanges> take();

  private:
    explicit LinkNews(NewsSocket socket) : socket_(std::move(socket)) {}
    NewsSocket socket_;
};

}  // namespace chainio::net
