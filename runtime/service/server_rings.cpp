// Requests by shared memory: each is what a datagram would be, and its replies lie one behind the other in the frame
// that it came in.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/net/clock.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

constexpr std::size_t kRequestsAtOnce = 64;  // requests, until sockets and interfaces have their turn

}  // namespace

void Server::serve_rings(ring::Shared& ring) {
    ring_requests_.emplace(kRingPlaces * kRingRoom);
    RingHost host;
    host.find = [this](std::string_view name) { return find_for_ring(name); };
    host.watch = [this](std::uint32_t number, int fd) { net_->watch(place_of_rings() + number, fd); };
    host.stop_watching = [this](std::uint32_t number) { net_->stop_watching(place_of_rings() + number); };
    host.joined = [this](const std::string& service) {
        ServiceCounters& counters = *now_->ring_counters[*now_->find(service)];
        counters.accepted++;
        counters.open++;
    };
    // Those of a service that a newer spec does not have are gone with it.
    host.left = [this](const std::string& service) {
        if (const auto there = now_->find(service)) now_->ring_counters[*there]->open--;
    };
    host.has_room = [this](std::uint32_t service) { return has_room_for_ring(service); };
    host.broken = [this](std::uint32_t service, std::string_view how) {
        fallbacks_->note("ring-broken", fmt::format("a client of service '{}' wrote what no client of rings may write "
                                                    "({}), and was put off; use libchainio-ring of this version",
                                                    now_->module.services[service].name, how));
    };
    rings_.emplace(options_.rings, ring, std::move(host));
    if (std::ranges::none_of(listeners_, [](const Listener& each) { return !each.tcp && each.fd >= 0; }))
        fallbacks_->note("rings-unused", "--rings is for services with a `udp` endpoint, and none is served");
}

bool Server::is_reached_by_rings(std::uint32_t service) const {
    return rings_ && std::ranges::any_of(listeners_, [&](const Listener& each) {
               return !each.tcp && each.fd >= 0 && !each.leaving && each.generation == now_.get() &&
                      each.service == service;
           });
}

std::expected<std::uint32_t, std::string> Server::find_for_ring(std::string_view name) const {
    if (draining_) return std::unexpected("the server is ending");
    const auto service = now_->find(name);
    if (service && is_reached_by_rings(*service)) return *service;
    std::vector<std::string> served;
    for (std::uint32_t i = 0; i < now_->module.services.size(); i++)
        if (is_reached_by_rings(i)) served.push_back(now_->module.services[i].name);
    const std::string there =
        served.empty() ? "none has one here" : fmt::format("those that have one are: {}", fmt::join(served, ", "));
    if (service)
        return std::unexpected(
            fmt::format("service '{}' has no `udp` endpoint that is served in user space, and by "
                        "a ring comes what would be a datagram; {}",
                        name, there));
    return std::unexpected(
        fmt::format("there is no service '{}'; by rings those with a `udp` endpoint are reached; {}", name, there));
}

// A client of a ring need not be told that there is no room: what it sends waits there, and nobody else for it. Only
// where requests wait that are less urgent, one of them is shed for it.
bool Server::has_room_for_ring(std::uint32_t service) const {
    if (free_ring_.empty()) return false;
    return waiting_.size() < options_.waiting || waiting_.oldest_below(now_->priority_of(service)) != engine::kNoIndex;
}

// True: something came.
bool Server::take_from_rings() {
    if (!rings_) return false;
    std::array<RingRequest, kRequestsAtOnce> came;
    const std::size_t room = options_.waiting - std::min<std::size_t>(options_.waiting, waiting_.size());
    const std::size_t most = std::min(std::clamp<std::size_t>(room, 1, came.size()), free_ring_.size());
    const unsigned count = rings_->take(std::span(came).first(most));
    for (const RingRequest& request : std::span(came).first(count)) begin_from_ring(request);
    return count != 0;
}

// Its client may still write to it, so that what is checked and run is a copy.
void Server::begin_from_ring(const RingRequest& request) {
    const std::uint32_t index = free_ring_.back();
    free_ring_.pop_back();
    Datagram& datagram = datagrams_[index];
    std::uint8_t* at = ring_requests_->base() + (datagrams_.size() - 1 - index) * kRingRoom;
    const std::size_t length = std::min(request.bytes.size(), kLongestMessage);
    std::memcpy(at, request.bytes.data(), length);
    datagram.received = {.bytes = {at, length}, .peer = {}, .control = {}, .cut = length < request.bytes.size()};
    datagram.ring_client = request.client;
    datagram.ring_frame = request.frame;
    datagram.ring_length = 0;
    begin_with(index, *now_, request.service);
}

Server::Sent Server::send_by_ring(Datagram& datagram, std::uint32_t slot) {
    const std::int32_t program = service_of(datagram).on_datagram;
    std::array<std::uint8_t, kDatagramHead> head{};
    std::size_t head_length = 0;
    if (program >= 0) {
        const auto written = datagram.generation->requests.datagram_head(slot, program, 0, 1, head);
        if (!written) return without_begin(datagram, slot);
        head_length = *written;
    }
    ServiceCounters& counters = counters_of(datagram);
    if (!rings_->is_there(datagram.ring_client)) {
        counters.vanished++;
        return Sent::all;
    }
    const std::size_t length = head_length + datagram.answer.length();
    const auto room = rings_->room(datagram.ring_client, datagram.ring_frame).subspan(datagram.ring_length);
    if (length > room.size()) return Sent::too_long;
    std::copy_n(head.begin(), head_length, room.begin());
    datagram.answer.copy_to(room.data() + head_length);
    datagram.ring_length += static_cast<std::uint32_t>(length);
    counters.payload_copies++;
    counters.bytes_out += length;
    return Sent::all;
}

void Server::settle_ring(std::uint32_t index) {
    Datagram& datagram = datagrams_[index];
    const auto length = datagram.ring_length != 0 ? std::optional(datagram.ring_length) : std::nullopt;
    const std::uint32_t client = std::exchange(datagram.ring_client, engine::kNoIndex);
    free_ring_.push_back(index);
    rings_->give_back(client, datagram.ring_frame, length);
}

void Server::look_after_rings() {
    if (!rings_ || !is_due(rings_looked_ns_, kEndingTickMs)) return;
    if (rings_->any_unheard()) rings_->give_up_unheard(net::now_ns(), options_.timeout_ns);
    if (rings_->shortage() == 0 || draining_) return;
    if (rings_->shortage() == EAGAIN) return rings_->accept();
    fallbacks_->note("accept-waits", fmt::format("clients of rings wait for descriptors or memory: {}; raise the limit "
                                                 "(`ulimit -n`)",
                                                 std::strerror(rings_->shortage())));
    rings_->accept();
}

}  // namespace chainio::service
