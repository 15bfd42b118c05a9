// Says that the XDP features of an interface have changed: of a veth, that its peer has got a program or has lost it.
#pragma once
#include <memory>
#include <optional>

struct nl_sock;

namespace chainio::net {

class FeatureNews {
  public:
    // Of the interfaces in the process's network namespace. Nothing where the kernel does not tell (it does since 6.3).
    static std::optional<FeatureNews> subscribe();
    // Readable when there is something that take() has not taken.
    int fd() const;
    // Whether anything has changed since the last time; which interface, is to be asked for.
    bool take();

  private:
    struct Close {
        void operator()(nl_sock* socket) const;
    };
    explicit FeatureNews(std::unique_ptr<nl_sock, Close> socket) : socket_(std::move(socket)) {}
    std::unique_ptr<nl_sock, Close> socket_;
};

}  // namespace chainio::net
