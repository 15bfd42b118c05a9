// Says that the XDP features of an interface have changed: of a veth, that its peer has got a program or has lost it.
#pragma once
#include <optional>
#include <utility>

#include "runtime/net/news_socket.h"

namespace chainio::net {

class FeatureNews {
  public:
    // Of the interfaces in the process's network namespace. Nothing where the kernel does not tell (it does since 6.3).
    static std::optional<FeatureNews> subscribe();
    // Readable when there is something that take() has not taken.
    int fd() const { return socket_.fd(); }
    // Whether anything has changed since the last time; which interface, is to be asked for.
    bool take();

  private:
    explicit FeatureNews(NewsSocket socket) : socket_(std::move(socket)) {}
    NewsSocket socket_;
};

}  // namespace chainio::net
