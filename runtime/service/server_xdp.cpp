// Datagrams by AF_XDP: the requests lie in frames of the engine's memory, and replies leave from the frames that blocks
// were read into. What the interface's program does not take comes by the socket of the same endpoint.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/engine/owners.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

constexpr std::size_t kAtOnce = 64;
constexpr std::uint64_t kLettingGo = 1'000'000'000;  // ns, for last replies to leave
constexpr unsigned kTries = 100;                     // to take queues that the kernel is about to free

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
static_assert(Answer::kHeadroom >= net::kRoomForHeaders);

std::uint16_t destination_port(const std::uint8_t* payload) {
    return static_cast<std::uint16_t>(payload[-6] << 8 | payload[-5]);
}

}  // namespace

// Each interface that cannot be had is named and counted; its datagrams come by the sockets then.
void Server::open_interfaces() {
    const bool any = std::ranges::any_of(listeners_, [](const Listener& each) { return each.xdp && each.fd >= 0; });
    if (any && interfaces_.empty())
        fallbacks_->note("xdp-no-interface", "`via xdp` wants an interface (--interface NAME); served via uring");
    for (std::uint32_t i = 0; any && i < interfaces_.size(); i++) open_interface(i, kTries);
}

void Server::open_interface(std::uint32_t index, unsigned tries) {
    Interface& interface = interfaces_[index];
    interface.services.clear();
    interface.tries = 0;
    net::PortOptions wanted;
    for (const Listener& listener : listeners_) {
        if (!listener.xdp || listener.fd < 0 || listener.leaving) continue;
        wanted.ports.push_back(listener.port);
        interface.services.emplace_back(listener.port, listener.service);
    }
    wanted.interface = interface.name;
    wanted.copy = options_.copy;
    wanted.attach = options_.attach;
    wanted.whole_requests = true;
    auto port = net::Port::open(wanted, now_->engine.memory(), *fallbacks_);
    if (!port && port.error().why == net::Refusal::Why::busy && tries > 1) {
        interface.tries = tries - 1;
        return;
    }
    if (!port) return fallbacks_->note("xdp-refused", fmt::format("{}; served via uring", port.error().message));
    interface.port = std::move(*port);
    interface.generation = now_.get();
    interface.until_ns = 0;
    for (const int fd : interface.port->fds()) net_->watch(index * kMostWatched + interface.watched++, fd);
}

// A newer spec runs in other memory. Until the last reply has left from the old one, and the interface is opened anew,
// everything comes by the sockets.
void Server::let_interfaces_go() {
    for (std::uint32_t i = 0; i < interfaces_.size(); i++) {
        Interface& interface = interfaces_[i];
        interface.tries = 0;
        if (interface.port == nullptr) continue;
        interface.port->stop_taking();
        interface.until_ns = now_ns() + kLettingGo;
        for (std::uint32_t queue = 0; queue < interface.watched; queue++) net_->stop_watching(i * kMostWatched + queue);
    }
}

void Server::was_watched(const NetEvent& event) {
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
        const bool sending = interface.port->sending() != 0 && now_ns() < interface.until_ns;
        if (interface.watched != 0 || interface.port->unanswered() != 0 || sending)
            idle = false;
        else
            interface.port.reset();
    }
    return idle;
}

std::vector<const net::Port*> Server::interfaces() const {
    std::vector<const net::Port*> taken;
    for (const Interface& interface : interfaces_)
        if (interface.port != nullptr && interface.until_ns == 0) taken.push_back(interface.port.get());
    return taken;
}

// True: something came.
bool Server::take_from_interfaces() {
    bool any = false;
    for (std::uint32_t number = 0; number < interfaces_.size(); number++) {
        Interface& interface = interfaces_[number];
        if (interface.port == nullptr) continue;
        std::array<umem::Descriptor, kAtOnce> came;
        const std::size_t count = interface.port->receive({came.data(), std::min(kAtOnce, free_xdp_.size())});
        for (std::size_t i = 0; i < count; i++) take_frame(number, came[i]);
        any = any || count != 0;
    }
    return any;
}

void Server::take_frame(std::uint32_t number, const umem::Descriptor& frame) {
    Interface& interface = interfaces_[number];
    std::uint8_t* payload = interface.generation->engine.memory().data(frame.frame) + frame.offset;
    const auto service = std::ranges::find(interface.services, destination_port(payload),
                                           &std::pair<std::uint16_t, std::uint32_t>::first);
    if (service == interface.services.end()) {
        interface.port->release(frame);
        return;
    }
    const std::uint32_t index = free_xdp_.back();
    free_xdp_.pop_back();
    Datagram& datagram = datagrams_[index];
    datagram.frame = frame;
    datagram.port = number;
    datagram.received = {};
    datagram.received.bytes = {payload, frame.length};
    begin_with(index, *interface.generation, service->second);
}

std::size_t Server::longest_payload(const Datagram& datagram) const {
    constexpr std::size_t kLongest = 65507;  // over IPv4
    if (datagram.port == engine::kNoIndex) return kLongest;
    return interfaces_[datagram.port].port->longest_reply(datagram.frame);
}

void Server::send_frames(Datagram& datagram, std::span<const engine::Stretch> stretches) {
    std::array<umem::Descriptor, Answer::kMostStretches + 1> data{};
    ServiceCounters& counters = counters_of(datagram);
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < stretches.size(); i++) {
        data[i].kind = umem::Kind::send;
        data[i].frame = stretches[i].frame;
        data[i].offset = stretches[i].offset;
        data[i].length = stretches[i].length;
        length += stretches[i].length;
    }
    if (interfaces_[datagram.port].port->reply(datagram.frame, {data.data(), stretches.size()}))
        counters.bytes_out += length;
    else
        counters.vanished++;
}

void Server::flush_interfaces() {
    for (std::uint32_t i = 0; i < interfaces_.size(); i++) {
        if (interfaces_[i].port != nullptr) interfaces_[i].port->flush();
        if (interfaces_[i].tries != 0 && !draining_) open_interface(i, interfaces_[i].tries);
    }
}

}  // namespace chainio::service
