#include "runtime/service/server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/net/clock.h"
#include "runtime/net/shortage.h"
#include "runtime/service/listen.h"

namespace chainio::service {
namespace {

constexpr unsigned kEvents = 256, kMostRounds = 64;
constexpr std::uint64_t kShortage = 100'000'000;  // ns, until it may be over

// A displaced connection has its place until its receive has ended, with the ring's next turn, and all of them may give
// way at once.
std::size_t places_for(const ServerOptions& options) { return 2 * std::size_t{options.connections}; }

}  // namespace

Server::Server(std::unique_ptr<Generation> generation, const ServerOptions& options, std::unique_ptr<Net> net)
    : options_(options),
      net_(std::move(net)),
      memory_(places_for(options) * (kInput + kOutput)),
      held_next_(Net::kBuffers, engine::kNoIndex),
      held_from_(Net::kBuffers),
      held_length_(Net::kBuffers),
      arrived_ns_(places_for(options)),
      request_length_(places_for(options)),
      cut_(places_for(options)),
      waiting_(lines_of(generation->module), WaitingLink{&connections_, &datagrams_}),
      idle_(lines_of(generation->module), IdleLink{&connections_}),
      now_(std::move(generation)),
      events_(kEvents) {
    const std::size_t places = places_for(options);
    connections_.reserve(places);
    for (std::size_t i = 0; i < places; i++) {
        std::uint8_t* at = memory_.base() + i * (kInput + kOutput);
        connections_.emplace_back(at, at + kInput);
    }
    for (std::size_t i = places; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
    const std::size_t longest = std::max(kMostDatagrams * options.datagram_bytes, kLongestDatagram);
    const std::size_t of_rings = options.rings < 0 ? 0 : kRingPlaces;
    datagrams_.reserve(Net::kDatagrams + options.interfaces.size() * kXdpPlaces + of_rings);
    for (std::uint32_t i = 0; i < Net::kDatagrams; i++) datagrams_.emplace_back(longest);
    for (const std::string& name : options.interfaces) {
        interfaces_.emplace_back().name = name;
        for (std::uint32_t i = 0; i < kXdpPlaces; i++) {
            datagrams_.emplace_back(longest);
            free_xdp_.push_back(static_cast<std::uint32_t>(datagrams_.size() - 1));
        }
    }
    for (std::size_t i = 0; i < of_rings; i++) {
        datagrams_.emplace_back(std::max<std::size_t>(longest, umem::kMaxFrame));
        free_ring_.push_back(static_cast<std::uint32_t>(datagrams_.size() - 1));
    }
    for (auto* list : {&dirty_, &turn_}) list->reserve(places + datagrams_.size());
    for (auto* list : {&heard_of_, &gathering_}) list->reserve(places);
}

std::expected<std::unique_ptr<Server>, std::string> Server::create(engine::Engine& engine, Files files,
                                                                   const ServerOptions& options, const Plan& plan,
                                                                   const std::vector<GivenPort>& ports,
                                                                   ring::Shared& ring, metrics::Fallbacks& fallbacks) {
    auto net = Net::create(ring, fallbacks);
    if (!net) return std::unexpected(net.error());
    auto generation = make_generation(engine, std::move(files), options);
    if (!generation) return std::unexpected(generation.error());
    std::unique_ptr<Server> server(new Server(std::move(*generation), options, std::move(*net)));
    if (server->memory_.base() == nullptr)
        return std::unexpected(fmt::format("no memory for {} connections; ask for fewer", options.connections));
    auto listeners = server->listeners_for(*server->now_, plan, ports);
    if (!listeners) return std::unexpected(listeners.error());
    server->use_listeners(std::move(*listeners));
    server->fallbacks_ = &fallbacks;
    server->open_interfaces();
    server->wait_for_queues();
    if (options.rings >= 0) server->serve_rings(ring);
    if (server->ring_requests_ && server->ring_requests_->base() == nullptr)
        return std::unexpected("no memory for requests of clients of rings; start without --rings");
    return server;
}

Server::~Server() {
    for (const Listener& listener : listeners_)
        if (listener.fd >= 0) close(listener.fd);
    for (std::uint32_t i = 0; i < connections_.size(); i++) {
        Connection& connection = connections_[i];
        if (!connection.used()) continue;
        if (connection.request != engine::kNoIndex) connection.generation->requests.abandon(connection.request);
        close(connection.fd);
    }
    for (Datagram& datagram : datagrams_)
        if (datagram.request != engine::kNoIndex) datagram.generation->requests.abandon(datagram.request);
}

// Until its accept has ended, the kernel may have taken a connection that we have not heard of.
bool Server::is_open(const Listener& listener) { return listener.fd >= 0 || listener.accepting; }

bool Server::drained() const {
    const auto busy = [](const Interface& each) { return each.port != nullptr && !is_over(each); };
    return draining_ && used_ == 0 && datagrams_used_ == 0 && std::ranges::none_of(listeners_, is_open) &&
           std::ranges::none_of(interfaces_, busy) && (!rings_ || rings_->drained());
}

std::string Server::undrained() const {
    std::vector<std::string> left;
    const auto datagrams = std::ranges::count(datagrams_, true, &Datagram::used);
    const auto count = [&left](std::ptrdiff_t number, const char* what) {
        if (number != 0) left.push_back(fmt::format("{} {}{}", number, what, number == 1 ? "" : "s"));
    };
    count(std::ranges::count_if(listeners_, is_open), "port");
    count(used_, "connection");
    count(datagrams, "datagram");
    count(rings_ ? rings_->count() : 0, "ring client");
    for (const Interface& each : interfaces_)
        if (each.port != nullptr && !is_over(each)) left.push_back(fmt::format("what {} has to send", each.name));
    return fmt::format("{}", fmt::join(left, ", "));
}

bool& Server::dirty(std::uint32_t index) {
    return index < kFirstDatagram ? connections_[index].dirty : datagrams_[index - kFirstDatagram].dirty;
}

std::uint16_t& Server::rank(std::uint32_t index) {
    return index < kFirstDatagram ? connections_[index].rank : datagrams_[index - kFirstDatagram].rank;
}

// Of `waiting_`, in which it stands from its arrival on or from a reload.
std::uint32_t Server::line(std::uint32_t index) {
    return &generation_of(index) == now_.get() ? rank(index) + 1u : kLineBefore;
}

Generation& Server::generation_of(std::uint32_t index) const {
    return index < kFirstDatagram ? *connections_[index].generation : *datagrams_[index - kFirstDatagram].generation;
}

void Server::mark(std::uint32_t index) {
    if (std::exchange(dirty(index), true)) return;
    dirty_.push_back(index);
}

// Whether so much time has gone by since it was so last.
bool Server::is_due(std::uint64_t& last_ns, int each_ms) {
    const std::uint64_t now = net::now_ns();
    if (now - last_ns < static_cast<std::uint64_t>(each_ms) * 1'000'000) return false;
    last_ns = now;
    return true;
}

void Server::step(std::uint64_t until_ns) {
    if (rings_) rings_->awake();
    look_for_backlog();
    for (Generation* each : {now_.get(), before_.get()}) {
        if (each == nullptr) continue;
        go_on_all(*each, each->starved);
        go_on_all(*each, each->yielding);
    }
    if (any_short() && is_due(short_looked_ns_, kShortTickMs)) {
        go_on_short(*now_);
        if (before_) go_on_short(*before_);
    }
    for (unsigned round = 0; round < kMostRounds; round++) {
        const unsigned count = net_->take(events_);
        take_events(std::span(events_).first(count));
        // What is settled may start requests, and requests that end leave their connections to be settled.
        const bool asked = settle_sockets(), by_packets = take_from_interfaces();
        const bool came = take_from_rings() || by_packets;
        left_in_rings_ = came;
        if (count == 0 && (dirty_.empty() || round != 0) && !asked && !came) break;
        // One request of each and no more: who has sent thousands at once is marked anew, and others' come in between.
        turn_.swap(dirty_);
        for (const std::uint32_t index : turn_) {
            dirty(index) = false;
            index < kFirstDatagram ? settle(index) : settle_datagram(index - kFirstDatagram);
            start_waiting();
        }
        turn_.clear();
        if (net::now_ns() >= until_ns) break;
    }
    take_places_of_slow();
    give_up_late();
    accept_again();
    look_after_rings();
    look_at_bound_link();
    end_generation();
    note_idle_again();
}

// Those that came are the last: what has come of the others by then is known, and keeps them from giving way.
void Server::take_events(std::span<const NetEvent> events) {
    for (const bool accepts : {false, true})
        for (const NetEvent& event : events)
            if ((event.op == NetOp::accept) == accepts) take_event(event);
}

void Server::take_event(const NetEvent& event) {
    switch (event.op) {
        case NetOp::accept: return accepted(event);
        case NetOp::receive: return received(event);
        case NetOp::send:
        case NetOp::send_zero_copy: return was_sent(event);
        case NetOp::receive_from: return received_from(event);
        case NetOp::send_to: return was_sent_to(event);
        case NetOp::readable: return was_watched(event);
        case NetOp::cancel: return;
    }
}

void Server::accepted(const NetEvent& event) {
    Listener& listener = listeners_[event.index];
    if (event.result >= 0) add_connection(event.index, event.result);
    if (event.more) return;
    listener.accepting = false;
    if (listener.fd < 0 && listener.generation != nullptr) listener.generation->closing--;
    if (draining_ || listener.fd < 0) return;
    if (!net::is_shortage(-event.result)) return accept_at(event.index);
    // It ends the multishot accept, and would do so again at once; the connections wait in the backlog.
    accept_again_ns_ = net::now_ns() + kShortage;
    fallbacks_->note("accept-waits", fmt::format("connections wait for descriptors or memory: {}; raise the limit "
                                                 "(`ulimit -n`), or give fewer --connections",
                                                 std::strerror(-event.result)));
}

void Server::accept_at(std::uint32_t index) {
    listeners_[index].accepting = true;
    net_->accept(index, listeners_[index].fd);
}

void Server::accept_again() {
    if (accept_again_ns_ == 0 || net::now_ns() < accept_again_ns_) return;
    accept_again_ns_ = 0;
    for (std::uint32_t i = 0; i < listeners_.size() && !draining_; i++)
        if (listeners_[i].fd >= 0 && listeners_[i].tcp && !listeners_[i].accepting) accept_at(i);
}

void Server::add_connection(std::uint32_t listener, int fd) {
    Generation& generation = *listeners_[listener].generation;
    ServiceCounters& counters = *generation.counters[listeners_[listener].service];
    const bool full = used_ - displaced_ >= options_.connections;
    if (free_.empty() || (full && !makes_room(generation.priority_of(listeners_[listener].service)))) {
        counters.refused++;
        close(fd);
        return;
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    keep_alive(fd);
    Connection& connection = connections_[index];
    connection.reset(fd);
    connection.generation = &generation;
    connection.service = listeners_[listener].service;
    connection.rank = generation.rank_of(connection.service);
    generation.connections++;
    counters.accepted++;
    counters.open++;
    used_++;
    if (&generation != now_.get()) part(index);
    mark(index);
}

// Ends the connection that has been idle longest of the least urgent class, where that is less urgent than the one for
// which there is no place. What its peer has sent meanwhile, and was not looked at yet, keeps it. To look for that
// takes as long as there is much that has come, so that each is looked at once in a step, whatever the number of those
// for which there is no place.
bool Server::makes_room(std::uint32_t priority) {
    for (;;) {
        const std::uint32_t index = idle_.oldest_below(priority);
        if (index == engine::kNoIndex) return false;
        Connection& connection = connections_[index];
        if (connection.dirty || !quiet(index)) {
            forget_idle(index);
            heard_of_.push_back(index);
            continue;
        }
        counters_of(connection).displaced++;
        connection.broken = connection.displaced = true;
        displaced_++;
        drop(index);
        return true;
    }
}

// What was on its way to them need not have been a request.
void Server::note_idle_again() {
    for (const std::uint32_t index : heard_of_) {
        const Connection& connection = connections_[index];
        if (connection.used() && !connection.dirty && connection.idle_line == engine::kNoIndex && connection.is_idle())
            note_idle(index);
    }
    heard_of_.clear();
}

void Server::note_idle(std::uint32_t index) {
    Connection& connection = connections_[index];
    if (options_.idle_ns != 0 && connection.idle_since_ns == 0) connection.idle_since_ns = net::now_ns();
    connections_[index].idle_line = line(index);
    idle_.push(line(index), index);
}

void Server::forget_idle(std::uint32_t index) {
    const std::uint32_t line = std::exchange(connections_[index].idle_line, engine::kNoIndex);
    if (line != engine::kNoIndex) idle_.remove(line, index);
}

void Server::received(const NetEvent& event) {
    Connection& connection = connections_[event.index];
    if (!event.more) connection.receiving = connection.stopping = false;
    if (event.result > 0) connection.quiet_until_ns = connection.idle_since_ns = 0;
    forget_idle(event.index);
    mark(event.index);
    const auto length = static_cast<std::uint32_t>(std::max(event.result, 0));
    if (event.buffer == engine::kNoIndex) connection.input.received(length);
    if (length != 0) {
        counters_of(connection).bytes_in += length;
        if (event.buffer == engine::kNoIndex) return;
        if (connection.broken || connection.lingering || connection.leaving) return net_->give_back(event.buffer);
        return hold(connection, event.buffer, length);
    }
    if (event.buffer != engine::kNoIndex) net_->give_back(event.buffer);
    // No buffer was free, or the receive was stopped for want of room: it is asked for again when there is some.
    if (event.result == -ENOBUFS) {
        connection.no_buffer = true;
        fallbacks_->note("no-receive-buffers",
                         "all buffers hold what clients have sent ahead and there is no room for; "
                         "others' requests are received one by one");
    }
    if (event.result == -ENOBUFS || event.result == -ECANCELED || event.result == -EINTR) return;
    if (event.result == -EINVAL && net_->multishot()) return net_->without_multishot();
    connection.at_end = true;
    if (event.result >= 0) return;
    // Which of the two hears of it first, a send or this, is a matter of chance.
    if (!connection.broken && connection.is_owed()) counters_of(connection).vanished++;
    connection.broken = true;
}

void Server::hold(Connection& connection, std::uint32_t buffer, std::uint32_t length) {
    held_next_[buffer] = engine::kNoIndex;
    held_from_[buffer] = 0;
    held_length_[buffer] = length;
    (connection.held_tail == engine::kNoIndex ? connection.held_head : held_next_[connection.held_tail]) = buffer;
    connection.held_tail = buffer;
    fill_input(connection);
}

// Moves received bytes to where requests are looked for. What finds no room stays in its buffer, and no more is asked
// for.
void Server::fill_input(Connection& connection) {
    while (connection.held_head != engine::kNoIndex) {
        const std::uint32_t buffer = connection.held_head;
        const auto bytes =
            net_->received(buffer, held_from_[buffer] + held_length_[buffer]).subspan(held_from_[buffer]);
        const auto taken = static_cast<std::uint32_t>(connection.input.add(bytes));
        held_from_[buffer] += taken;
        held_length_[buffer] -= taken;
        if (held_length_[buffer] != 0) return;
        connection.held_head = held_next_[buffer];
        if (connection.held_head == engine::kNoIndex) connection.held_tail = engine::kNoIndex;
        net_->give_back(buffer);
    }
}

}  // namespace chainio::service
