#include "runtime/net/link_news.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include <cerrno>

namespace chainio::net {

void LinkNews::Close::operator()(nl_sock* socket) const { nl_socket_free(socket); }

std::optional<LinkNews> LinkNews::subscribe() {
    std::unique_ptr<nl_sock, Close> socket(nl_socket_alloc());
    if (socket == nullptr || nl_connect(socket.get(), NETLINK_ROUTE) != 0 ||
        nl_socket_add_memberships(socket.get(), RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, 0) != 0 ||
        nl_socket_set_nonblocking(socket.get()) != 0)
        return std::nullopt;
    return LinkNews(std::move(socket));
}

int LinkNews::fd() const { return nl_socket_get_fd(socket_.get()); }

std::optional<LinkChanges> LinkNews::take() {
    std::optional<LinkChanges> found;
    struct {
        nlmsghdr header;
        ifinfomsg link;
    } message{};
    for (;;) {
        // News come one in a packet; which attributes the interface has is not looked at.
        const ssize_t got = recv(fd(), &message, sizeof message, MSG_TRUNC);
        // More than the socket holds was said: that is news as well.
        if (got < 0 && errno != ENOBUFS && errno != EINTR) return found;
        if (!found) found.emplace();
        const bool of_address = message.header.nlmsg_type == RTM_NEWADDR || message.header.nlmsg_type == RTM_DELADDR;
        found->missed = found->missed || got < 0;
        found->addresses = found->addresses || got < 0 || of_address;
        // A bridge says the same of interfaces that leave it.
        if (got < static_cast<ssize_t>(sizeof message) || message.link.ifi_family != AF_UNSPEC) continue;
        const auto index = static_cast<unsigned>(message.link.ifi_index);
        if (message.header.nlmsg_type == RTM_DELLINK) found->removed.push_back(index);
        if (message.header.nlmsg_type == RTM_NEWLINK) found->changed.push_back(index);
    }
}

}  // namespace chainio::net
