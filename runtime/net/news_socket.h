// A netlink socket on which the kernel tells what has changed, in groups of news.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

struct nl_sock;

namespace chainio::net {

class NewsSocket {
  public:
    // Of a protocol of netlink. Nothing where the process may have no such socket.
    static std::optional<NewsSocket> connect(int protocol);
    // False: it hears nothing of that group.
    bool join(int group);
    nl_sock* get() const { return socket_.get(); }
    int fd() const;

    struct Heard {
        std::size_t length = 0;  // of the whole message, which may be longer than what was taken of it
        bool missed = false;     // more was said than the socket holds: that is news as well
    };
    // The next message, as far as there is room for it; nothing when there is none.
    std::optional<Heard> take(std::span<std::byte> message);

  private:
    struct Close {
        void operator()(nl_sock* socket) const;
    };
    explicit NewsSocket(std::unique_ptr<nl_sock, Close> socket) : socket_(std::move(socket)) {}
    std::unique_ptr<nl_sock, Close> socket_;
};

}  // namespace chainio::net
