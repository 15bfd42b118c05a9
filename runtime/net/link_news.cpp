#include "runtime/net/link_news.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace chainio::net {

std::optional<LinkNews> LinkNews::subscribe() {
    auto socket = NewsSocket::connect(NETLINK_ROUTE);
    if (!socket) return std::nullopt;
    for (const int group : {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR})
        if (!socket->join(group)) return std::nullopt;
    return LinkNews(std::move(*socket));
}

std::optional<LinkChanges> LinkNews::take() {
    std::optional<LinkChanges> found;
    struct {
        nlmsghdr header;
        ifinfomsg link;
    } message{};
    // News come one in a packet; which attributes the interface has is not looked at.
    while (const auto heard = socket_.take(std::as_writable_bytes(std::span(&message, 1)))) {
        if (!found) found.emplace();
        const bool of_address = message.header.nlmsg_type == RTM_NEWADDR || message.header.nlmsg_type == RTM_DELADDR;
        found->missed = found->missed || heard->missed;
        found->addresses = found->addresses || heard->missed || of_address;
        // A bridge says the same of interfaces that leave it.
        if (heard->length < sizeof message || message.link.ifi_family != AF_UNSPEC) continue;
        const auto index = static_cast<unsigned>(message.link.ifi_index);
        if (message.header.nlmsg_type == RTM_DELLINK) found->removed.push_back(index);
        if (message.header.nlmsg_type == RTM_NEWLINK) found->changed.push_back(index);
    }
    return found;
}

}  // namespace chainio::net
