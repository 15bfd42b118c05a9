// Datagrams by AF_XDP: the requests lie in frames of the engine's memory, and replies leave from the frames that blocks
// were read into. What the interface's program does not take comes by the socket of the same endpoint.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/engine/owners.h"
#include "runtime/net/clock.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

using net::now_ns;

constexpr std::size_t kFramesAtOnce = 64;
constexpr std::uint64_t kAway = 1'000'000, kBacklogFor = 200'000'000;  // ns
constexpr std::uint64_t kWaitAtStart = 5'000'000'000;                  // they are freed one after the other

bool keeps(const ir::Service& service) { return service.cache.entries != 0; }

net::KeptService kept_of(const ir::Service& service, std::uint16_t port) {
    const ir::ServiceCache& cache = service.cache;
    return {port, keeps(service) ? cache.entries : 0, cache.ttl_ns, cache.compared, cache.head};
}

void add(net::KeptCounters& sum, const net::KeptCounters& more) {
    sum.hits += more.hits;
    sum.misses += more.misses;
    sum.stale += more.stale;
    sum.no_room += more.no_room;
    sum.kept += more.kept;
}

std::uint16_t destination_port(const std::uint8_t* payload) {
    return static_cast<std::uint16_t>(payload[-6] << 8 | payload[-5]);
}

}  // namespace

std::size_t Server::packet_bytes(unsigned queues) {
    return (std::size_t{queues} * net::PortOptions{}.entries + kXdpPlaces) * net::kChunk;
}

// What waits in the queues of one more would be taken from the blocks of all requests.
bool Server::has_memory_for(unsigned queues) const {
    std::size_t bytes = packet_bytes(queues);
    for (const Interface& each : interfaces_)
        if (each.port != nullptr && each.generation == now_.get()) bytes += packet_bytes(each.port->queues());
    return bytes <= now_->engine.packet_bytes();
}

bool Server::any_by_xdp() const {
    return std::ranges::any_of(listeners_, [](const Listener& each) { return each.xdp && each.fd >= 0; });
}

// Whether services hear at any of its addresses; those that do not stay the kernel's, as for their sockets.
void Server::look_at_bound(Interface& interface) {
    const std::string why = why_unheard(interface);
    const bool before = std::exchange(interface.unheard, !why.empty());
    if (interface.unheard == before) return;
    if (interface.unheard) return fallbacks_->note("xdp-not-bound", why);
    news_.push_back(
        fmt::format("{} has an address at which services listen: what is sent there is taken off it", interface.name));
}

// Empty where they hear at some. Of a part of something else, an address of the link alone is nobody's to ask at.
std::string Server::why_unheard(const Interface& interface) const {
    const net::Interface& ours = interface.port->interface();
    const bool empty = ours.addresses.empty(), any = options_.address == "::";
    if (!empty && !(any && std::ranges::all_of(ours.addresses, net::is_of_link))) return {};
    const std::string master = net::master_of(ours);
    const auto now = net::addresses_of(ours.index);
    const bool has_some = !(now ? now->own : ours.addresses).empty();
    if (!master.empty() && (any || !has_some))
        return fmt::format("{} has no IP address{}: datagrams to {}'s addresses come by the socket; name {}",
                           interface.name, empty ? "" : " but the link's", master, master);
    if (!empty) return {};
    if (has_some) return why_not_bound(interface);
    return fmt::format(
        "{} has no IP address, so that all datagrams come by the socket: `ip addr add ADDRESS dev {}`, "
        "or name the interface that has the services' addresses",
        interface.name, interface.name);
}

std::string Server::why_not_bound(const Interface& interface) const {
    return fmt::format("{} has no address at which services listen (--bind {}); its datagrams are left to the kernel",
                       interface.name, options_.address);
}

// Each interface that cannot be had is named and counted; its datagrams come by the sockets then.
void Server::open_interfaces() {
    const bool any = any_by_xdp();
    if (any && interfaces_.empty())
        fallbacks_->note("xdp-no-interface", "`via xdp` wants an interface (--interface NAME); served via uring");
    if (!any && !interfaces_.empty())
        fallbacks_->note("xdp-unused", "--interface is for services `via xdp`, and none is served");
    if (any && !interfaces_.empty() && !link_news_) hear_of_links();
    for (std::uint32_t i = 0; any && i < interfaces_.size(); i++) open_interface(i, kTries);
    if (any && !interfaces_.empty() && !feature_news_) hear_of_peers();
}

// Queues of a process that has just ended are freed a moment later. Nobody is served yet when the server is made, so
// that whoever starts it again finds its interfaces open as soon as it says that it serves.
void Server::wait_for_queues() {
    const std::uint64_t until = now_ns() + kWaitAtStart;
    const auto busy = [](const Interface& each) { return each.tries != 0; };
    while (std::ranges::any_of(interfaces_, busy) && now_ns() < until) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(kTryAgain));
        open_busy_interfaces();
    }
}

void Server::open_busy_interfaces() {
    for (std::uint32_t i = 0; i < interfaces_.size(); i++)
        if (interfaces_[i].tries != 0 && now_ns() >= interfaces_[i].try_ns) open_interface(i, interfaces_[i].tries);
}

bool Server::is_taken(unsigned number) const {
    return std::ranges::any_of(interfaces_, [&](const Interface& each) {
        return each.port != nullptr && each.port->interface().index == number;
    });
}

void Server::open_interface(std::uint32_t index, unsigned tries) {
    Interface& interface = interfaces_[index];
    interface.services.clear();
    interface.tries = 0;
    const auto found = net::find_interface(interface.name);
    interface.tried = net::up_as(found);
    interface.unread = false;
    // Nothing tells of it once more: it is as one that was never tried.
    const auto later = [&](const std::string& message) {
        interface.unread = true;
        interface.tried = 0;
        interface.try_ns = now_ns() + kShortOfDescriptors;
        fallbacks_->note("xdp-refused", fmt::format("{}; served via uring", message));
    };
    if (!found && found.error().unasked) return later(found.error().message);
    const auto bound = net::linked_of(options_.address);
    if (!bound && bound.error().unasked) return later(bound.error().message);
    // The same address at another link, or at one that is gone, is another address.
    if (!bound || (bound->link != 0 && found && bound->link != found->index))
        return fallbacks_->note("xdp-not-bound", why_not_bound(interface));
    net::PortOptions wanted;
    for (const Listener& listener : listeners_) {
        if (!listener.xdp || listener.fd < 0 || listener.leaving) continue;
        wanted.ports.push_back(listener.port);
        interface.services.emplace_back(listener.port, listener.service);
        wanted.kept.push_back(kept_of(now_->module.services[listener.service], listener.port));
    }
    wanted.interface = interface.name;
    wanted.bound = net::address_of(bound->address).value_or(net::Address{});  // the sockets have taken it
    wanted.copy = options_.copy;
    wanted.attach = options_.attach;
    wanted.share = options_.share;
    wanted.whole_requests = true;
    wanted.number = static_cast<std::uint16_t>(index);
    if (found && is_taken(found->index))
        return fallbacks_->note("xdp-refused", fmt::format("{} is another name of an interface that is taken already: "
                                                           "keep one of the two",
                                                           interface.name));
    if (found && found->up && found->queues <= net::kMostQueues && !has_memory_for(found->queues))
        return fallbacks_->note("xdp-refused",
                                fmt::format("{} has {} queues, for which memory is taken at the start and with each "
                                            "reload: reload; served via uring until then",
                                            interface.name, found->queues));
    auto port = net::Port::open(wanted, now_->engine.memory(), *fallbacks_);
    if (!port && port.error().why == net::Refusal::Why::busy && tries > 1) {
        interface.tries = tries - 1;
        interface.try_ns = now_ns() + kTryAgain;
        return;
    }
    if (!port && port.error().shortage) return later(port.error().message);
    if (!port) return fallbacks_->note("xdp-refused", fmt::format("{}; served via uring", port.error().message));
    interface.port = std::move(*port);
    interface.generation = now_.get();
    interface.opened++;
    interface.unheard = interface.unread_addresses = false;
    news_.push_back(interface.port->describe());
    look_at_bound(interface);
    look_at_peer(interface);
    for (const int fd : interface.port->fds()) net_->watch(index * kMostWatched + interface.watched++, fd);
}

// A newer spec runs in other memory. Until the last reply has left from the old one, and the interface is opened anew,
// everything comes by the sockets.
void Server::let_interfaces_go() {
    for (std::uint32_t i = 0; i < interfaces_.size(); i++) {
        interfaces_[i].tries = 0;
        if (interfaces_[i].port != nullptr && interfaces_[i].until_ns == 0) let_go(i, kLettingGo);
    }
}

void Server::let_go(std::uint32_t index, std::uint64_t last_ns) {
    Interface& interface = interfaces_[index];
    interface.port->stop_taking();
    interface.last_ns = last_ns;
    interface.until_ns = now_ns() + last_ns;
    for (std::uint32_t queue = 0; queue < interface.watched; queue++) net_->stop_watching(index * kMostWatched + queue);
}

// Once the last requests of a removed interface have ended its frames are back, and the next one of its name is opened.
void Server::close_gone() {
    for (std::uint32_t i = 0; i < interfaces_.size(); i++) {
        Interface& interface = interfaces_[i];
        if (interface.port == nullptr || interface.until_ns == 0 || !is_over(interface)) continue;
        close_interface(interface);
        if (!draining_) open_interface(i, kTries);
    }
}

void Server::was_watched(const NetEvent& event) {
    if (rings_ && event.index >= place_of_rings()) return rings_->came(event.index - place_of_rings(), event.more);
    if (event.index == place_of_news()) {
        if (feature_news_->take()) look_at_peers();
        if (!event.more) net_->watch(event.index, feature_news_->fd());
        return;
    }
    if (event.index == place_of_links()) {
        if (const auto changes = link_news_->take()) look_at_links(*changes);
        if (!event.more) net_->watch(event.index, link_news_->fd());
        return;
    }
    if (event.more) return;
    Interface& interface = interfaces_[event.index / kMostWatched];
    if (interface.until_ns != 0)
        interface.watched--;
    else
        net_->watch(event.index, interface.port->fds()[event.index % kMostWatched]);
}

// Whether nothing of the generation before is left in the interfaces: they are closed then, and their frames are back.
bool Server::interfaces_idle() {
    bool idle = true;
    for (Interface& interface : interfaces_) {
        if (interface.port == nullptr || interface.until_ns == 0) continue;
        if (is_over(interface))
            close_interface(interface);
        else
            idle = false;
    }
    return idle;
}

// Whether an interface that is let go of has nothing left to do.
bool Server::is_over(const Interface& interface) {
    if (interface.watched != 0 || interface.port->unanswered() != 0 || interface.port->came() != 0) return false;
    return interface.port->sending() == 0 || now_ns() >= interface.until_ns;
}

// What its program has counted goes over to the services.
void Server::close_interface(Interface& interface) {
    for (std::size_t number = 0; number < interface.services.size(); number++)
        add(interface.generation->udp_counters[interface.services[number].second]->kept, interface.port->kept(number));
    interface.dropped += interface.port->dropped();
    interface.port.reset();
    interface.until_ns = 0;
}

std::optional<net::KeptCounters> Server::kept(std::uint32_t service) const {
    if (!keeps(now_->module.services[service])) return std::nullopt;
    net::KeptCounters sum = now_->udp_counters[service]->kept;
    for (const Interface& interface : interfaces_) {
        if (interface.port == nullptr) continue;
        for (std::size_t number = 0; number < interface.services.size(); number++) {
            const std::uint32_t there = interface.services[number].second;
            if (interface.generation->udp_counters[there] == now_->udp_counters[service])
                add(sum, interface.port->kept(number));
        }
    }
    return sum;
}

void Server::forget_replies() {
    for (Interface& interface : interfaces_)
        if (interface.port != nullptr) interface.port->replies().forget();
}

std::vector<Server::Taken> Server::interfaces() const {
    std::vector<Taken> taken;
    for (const Interface& interface : interfaces_)
        if (interface.port != nullptr && interface.until_ns == 0)
            taken.push_back({interface.port.get(), interface.opened, interface.dropped});
    return taken;
}

std::uint64_t Server::interface_dropped(std::size_t number) const {
    const Interface& interface = interfaces_[number];
    return interface.dropped + (interface.port != nullptr ? interface.port->dropped() : 0);
}

// What came while this thread could not look is no overload: as long as the rings hold it, it is taken as chains end,
// and nothing is shed. For a while only: where chains do not go on, all of it is taken, and the least urgent are told,
// however often others have the processor meanwhile. Chains that end then are heard of later, so that such a time
// counts as no longer than the shortest of them.
void Server::look_for_backlog() {
    if (interfaces_.empty()) return;
    const std::uint64_t now = now_ns(), away = now - std::exchange(looked_ns_, now);
    backlog_held_ns_ = std::exchange(backlog_moves_, false) ? 0 : backlog_held_ns_ + std::min(away, kAway);
    if (backlog_ != 0 && backlog_held_ns_ >= kBacklogFor) {
        backlog_ = 0;
        backlog_overdue_ = true;
    }
    if (away < kAway && !backlog_overdue_) return;
    std::size_t came = 0;
    for (const Interface& interface : interfaces_)
        if (interface.port != nullptr) came += interface.port->came();
    backlog_overdue_ = backlog_overdue_ && came != 0;
    if (away < kAway || backlog_overdue_) return;
    if (backlog_ == 0) backlog_held_ns_ = 0;
    backlog_ = came;
}

// True: something came.
bool Server::take_from_interfaces() {
    if (leaves_backlog()) return false;
    const std::size_t room = options_.waiting - std::min<std::size_t>(options_.waiting, waiting_.size());
    const std::size_t most = backlog_ != 0 ? std::clamp<std::size_t>(room, 1, kFramesAtOnce) : kFramesAtOnce;
    bool any = false;
    for (std::uint32_t number = 0; number < interfaces_.size(); number++) {
        Interface& interface = interfaces_[number];
        if (interface.port == nullptr) continue;
        std::array<umem::Descriptor, kFramesAtOnce> came;
        const std::size_t count = interface.port->receive({came.data(), std::min(most, free_xdp_.size())});
        for (std::size_t i = 0; i < count; i++) take_frame(number, came[i]);
        any = any || count != 0;
        backlog_ -= std::min(backlog_, count);
    }
    backlog_moves_ = backlog_moves_ || any;
    return any;
}

void Server::take_frame(std::uint32_t number, const umem::Descriptor& frame) {
    Interface& interface = interfaces_[number];
    std::uint8_t* payload = interface.generation->engine.memory().data(frame.frame) + frame.offset;
    const auto service = std::ranges::find(interface.services, destination_port(payload),
                                           &std::pair<std::uint16_t, std::uint32_t>::first);
    const bool is_served = service != interface.services.end();
    const net::Ends ends = interface.port->ends(frame);
    const unsigned link = net::is_of_link(ends.peer) ? interface.port->interface().index : 0;
    if (!is_served || comes_from_us({ends.peer, ends.peer_port, link}, *interface.generation, service->second)) {
        interface.port->release(frame);
        return;
    }
    const std::uint32_t index = free_xdp_.back();
    free_xdp_.pop_back();
    Datagram& datagram = datagrams_[index];
    datagram.frame = frame;
    datagram.port = number;
    datagram.kept_number = static_cast<std::uint32_t>(service - interface.services.begin());
    datagram.kept_epoch = interface.port->replies().epoch(datagram.kept_number);
    datagram.received = {};
    datagram.received.bytes = {payload, frame.length};
    begin_with(index, *interface.generation, service->second);
}

int Server::flush(bool more) {
    send_gathered(!more);
    if (interfaces_.empty()) return -1;
    if (!feature_news_ && now_ns() - peers_looked_ns_ > kLookAtPeers) {
        peers_looked_ns_ = now_ns();
        look_at_peers();
    }
    if (!draining_) open_busy_interfaces();
    bool unsent = false, busy = look_again(), down = false;
    for (Interface& interface : interfaces_) {
        busy = busy || interface.tries != 0;
        if (interface.port == nullptr) continue;
        interface.port->flush();
        unsent = unsent || interface.port->unsent();
        down = down || interface.port->waits_for_link();
    }
    if (unsent) return kUnsentTickMs;
    if (busy && !draining_) return static_cast<int>(kTryAgain / 1'000'000);
    // Whom nobody tells that an interface is up again looks for himself.
    return down && !link_news_ ? kLinkTickMs : -1;
}

}  // namespace chainio::service
