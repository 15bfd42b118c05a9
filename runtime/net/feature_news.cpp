#include "runtime/net/feature_news.h"

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace chainio::net {
namespace {

// Of linux/netdev.h, which distributions' headers do not have yet.
constexpr const char *kFamily = "netdev", *kGroup = "mgmt";

}  // namespace

void FeatureNews::Close::operator()(nl_sock* socket) const { nl_socket_free(socket); }

std::optional<FeatureNews> FeatureNews::subscribe() {
    std::unique_ptr<nl_sock, Close> socket(nl_socket_alloc());
    if (socket == nullptr || genl_connect(socket.get()) != 0) return std::nullopt;
    const int group = genl_ctrl_resolve_grp(socket.get(), kFamily, kGroup);
    if (group < 0 || nl_socket_add_membership(socket.get(), group) != 0 || nl_socket_set_nonblocking(socket.get()) != 0)
        return std::nullopt;
    return FeatureNews(std::move(socket));
}

int FeatureNews::fd() const { return nl_socket_get_fd(socket_.get()); }

bool FeatureNews::take() {
    bool any = false;
    std::array<char, 256> message;
    for (;;) {
        const ssize_t got = recv(fd(), message.data(), message.size(), MSG_TRUNC);
        // More than the socket holds was said: that is news as well.
        if (got < 0 && errno != ENOBUFS && errno != EINTR) return any;
        any = true;
    }
}

}  // namespace chainio::net
