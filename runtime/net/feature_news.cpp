#include "runtime/net/feature_news.h"

#include <linux/netlink.h>
#include <netlink/genl/ctrl.h>

#include <array>

namespace chainio::net {
namespace {

// Of linux/netdev.h, which distributions' headers do not have yet.
constexpr const char *kFamily = "netdev", *kGroup = "mgmt";

}  // namespace

std::optional<FeatureNews> FeatureNews::subscribe() {
    auto socket = NewsSocket::connect(NETLINK_GENERIC);
    if (!socket || !socket->join(genl_ctrl_resolve_grp(socket->get(), kFamily, kGroup))) return std::nullopt;
    return FeatureNews(std::move(*socket));
}

bool FeatureNews::take() {
    bool any = false;
    std::array<std::byte, 256> message;
    while (socket_.take(message)) any = true;
    return any;
}

}  // namespace chainio::net
