// What becomes of the interfaces whose datagrams are taken, and of those beside them, as the kernel says it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/net/clock.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

using net::now_ns;

}  // namespace

void Server::hear_of_links() {
    link_news_ = net::LinkNews::subscribe();
    if (link_news_) return net_->watch(place_of_links(), link_news_->fd());
    fallbacks_->note("xdp-not-watched",
                     "no netlink socket (`RestrictAddressFamilies=AF_NETLINK` lets systemd's services have one): an "
                     "interface that goes or comes is only noticed with the next reload");
}

// Peers get programs and lose them. Where the kernel does not say so, they are looked at every second.
void Server::hear_of_peers() {
    feature_news_ = net::FeatureNews::subscribe();
    if (!feature_news_) return;
    net_->watch(place_of_news(), feature_news_->fd());
    look_at_peers();  // what was changed before is not told
}

// Reloads end with all interfaces opened anew, so that nothing is to be done while one runs.
void Server::look_at_links(const net::LinkChanges& changes) {
    for (std::uint32_t i = 0; i < interfaces_.size() && !before_; i++) look_at_link(i, changes);
}

// One that is gone is let go of; one that is up, and was not when it was tried last, is opened.
void Server::look_at_link(std::uint32_t index, const net::LinkChanges& changes) {
    Interface& interface = interfaces_[index];
    if (interface.port == nullptr) {
        const auto found = net::find_interface(interface.name);
        interface.unread = !found && found.error().unasked;
        if (interface.unread) {
            interface.tried = 0;  // nobody knows whether it was down meanwhile, after which it is tried once more
            return;
        }
        const unsigned up = net::up_as(found);
        const bool other = up != interface.tried;
        if (other && up != 0 && !draining_ && any_by_xdp()) return open_interface(index, kTries);
        interface.tried = up;
        return;
    }
    if (interface.until_ns != 0) return;
    const net::Interface& ours = interface.port->interface();
    const bool removed = std::ranges::find(changes.removed, ours.index) != changes.removed.end();
    const auto gone = removed ? true : net::is_gone(ours);
    if (!gone.value_or(false)) {
        const bool all = std::exchange(interface.unread, !gone) || changes.missed;
        const bool told = all || std::ranges::find(changes.changed, ours.index) != changes.changed.end();
        if (told && !look_at_attributes(index)) return;
        if (told) look_at_peer(interface);
        if (all || changes.addresses) look_at_addresses(interface);
        return;
    }
    gone_++;
    news_.push_back(fmt::format("{} is gone: AF_XDP on it ends, its services are served via uring", interface.name));
    // Nothing that waits to be sent will leave one that was removed; one that is called otherwise now sends it still.
    let_go(index, removed ? 0 : kLettingGo);
}

// What could not be asked, as without a descriptor to spare, is asked again: all of it, as nobody tells it twice. True:
// there is some such.
bool Server::look_again() {
    if (draining_ || before_) return false;
    bool any = false;
    for (std::uint32_t i = 0; i < interfaces_.size(); i++) {
        Interface& interface = interfaces_[i];
        if (interface.unread && interface.until_ns == 0 && now_ns() >= interface.try_ns) {
            interface.try_ns = now_ns() + kTryAgain;
            look_at_link(i, {});
        }
        any = any || (interface.unread && interface.until_ns == 0);
    }
    return any;
}

void Server::look_at_addresses(Interface& interface) {
    const auto looked = interface.port->look_at_addresses();
    const bool unread = !looked && looked.error().why != net::Refusal::Why::unsupported;
    const bool again = std::exchange(interface.unread_addresses, unread) && unread;
    interface.unread = interface.unread || unread;
    if (!looked && !again)
        fallbacks_->note("xdp-addresses", fmt::format("{}; datagrams to its newer addresses come by the socket",
                                                      looked.error().message));
    look_at_bound(interface);
}

// The MTU says how long replies may be. The MAC address is a constant of the program, which leaves to the kernel what
// is not sent to it: with another one the interface is opened anew. False: it is.
bool Server::look_at_attributes(std::uint32_t index) {
    Interface& interface = interfaces_[index];
    const net::Interface& ours = interface.port->interface();
    const auto now = net::find_interface(interface.name);
    if (!now) interface.unread = interface.unread || now.error().unasked;
    if (!now || now->index != ours.index) return true;
    if (now->mac != ours.mac) {
        news_.push_back(fmt::format("{} has another MAC address: AF_XDP on it begins anew", interface.name));
        let_go(index, kLettingGo);
        return false;
    }
    if (now->mtu == ours.mtu) return true;
    news_.push_back(fmt::format("{} has an MTU of {} instead of {}: replies by AF_XDP keep to it", interface.name,
                                now->mtu, ours.mtu));
    interface.port->use_mtu(now->mtu);
    return true;
}

// Where packets that the driver sends back do not arrive, the runtime answers all; where it keeps none, there are none.
void Server::look_at_peer(Interface& interface) {
    if (!interface.port->replies().keeps_any()) return;
    // One that is gone says nothing of its peer, and is told by itself.
    if (net::is_gone(interface.port->interface()).value_or(false)) return;
    if (!interface.port->look_at_peer(link_news_.has_value())) interface.unread = true;
    const bool answers = interface.port->answering() != CIO_XDP_SILENT;
    const std::string why = answers ? std::string() : interface.port->why_silent();
    if (std::exchange(interface.silent, why) == why || answers) return;
    fallbacks_->note("xdp-cache-off",
                     fmt::format("{} answers nothing by itself, as {}; the runtime answers", interface.name, why));
}

void Server::look_at_peers() {
    for (Interface& interface : interfaces_)
        if (interface.port != nullptr && interface.until_ns == 0) look_at_peer(interface);
}

}  // namespace chainio::service
