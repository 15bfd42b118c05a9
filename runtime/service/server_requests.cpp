// The life of a connection's requests, one after the other: their turn, their end, the reply; and the connection's end.
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/net/clock.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

using net::now_ns;

constexpr std::uint64_t kLinger = 2'000'000'000;          // ns, for a peer to close its side once it was told
constexpr std::uint64_t kQuietAmidRequest = 200'000'000;  // ns

}  // namespace

// Does what a connection's state allows.
void Server::settle(std::uint32_t index) {
    Connection& connection = connections_[index];
    if (!connection.used()) return;
    forget_idle(index);
    if (connection.broken) return drop(index);
    fill_input(connection);
    if (connection.request == engine::kNoIndex && !connection.waiting) {
        if (connection.generation != now_.get() && !connection.parting()) go_over(connection);
        if (!connection.leaving) look_for_request(index);
    }
    // A reply goes out when it is whole, also while the next request runs, or when it waits for room or memory.
    const std::size_t ready = connection.blocked || connection.hungry ? SIZE_MAX : connection.output.of_whole();
    if (connection.sending == 0 && !connection.output.empty() && ready != 0 && !gathers(index))
        start_sending(index, ready);
    if (connection.lingering && connection.at_end) return drop(index);
    if (connection.leaving && !connection.lingering && connection.request == engine::kNoIndex &&
        connection.sending == 0)
        return finish(index);
    const bool no_room = connection.held_head != engine::kNoIndex;
    if (no_room && connection.receiving && net_->multishot() && !connection.stopping) {
        connection.stopping = true;
        net_->stop_receiving(index);
    }
    if (!connection.receiving && !no_room && !connection.at_end) receive(index);
    if (connection.is_idle()) note_idle(index);
}

// Who has sent ahead more than there is room for may have all buffers, which is nobody else's fault.
void Server::receive(std::uint32_t index) {
    Connection& connection = connections_[index];
    if (!connection.no_buffer) {
        connection.receiving = true;
        return net_->receive(index, connection.fd);
    }
    const auto room = connection.input.lend();
    if (room.empty()) return;
    connection.no_buffer = false;
    connection.receiving = true;
    net_->receive_to(index, connection.fd, room);
}

void Server::look_for_request(std::uint32_t index) {
    Connection& connection = connections_[index];
    if (connection.parting() && now_ns() > connection.parting_until_ns) {
        connection.leaving = true;
        return;
    }
    const ir::Framing& framing = service_of(connection).tcp_framing;
    const Request fields = connection.generation->requests.fields_of(framing, connection.input.bytes());
    const Request request = connection.input.first(fields, framing.end, options_.request_bytes);
    if (request.cut == Cut::more && connection.input.make_room()) {
        fill_input(connection);
        return look_for_request(index);
    }
    if (connection.time_begins()) connection.request_deadline_ns = 0;
    if (request.cut == Cut::more) {
        const bool begun = connection.input.held() != 0, skips = connection.input.skips() != 0;
        // The time for a request runs from its first byte, however its bytes trickle in.
        if (!begun && !skips) connection.request_deadline_ns = 0;
        if ((begun || skips) && connection.request_deadline_ns == 0)
            connection.request_deadline_ns = now_ns() + options_.timeout_ns;
        const bool to_end = draining_ || connection.parting();
        if (connection.at_end || (to_end && stays_quiet(index, begun || skips))) connection.leaving = true;
        if (begun && connection.at_end) counters_of(connection).unanswered++;  // the rest of it will not come
        return;
    }
    connection.request_deadline_ns = 0;
    connection.input.pin(true);
    arrived_ns_[index] = now_ns();
    cut_[index] = request.cut;
    request_length_[index] = request.cut == Cut::whole ? request.length : connection.input.held();
    counters_of(connection).requests++;
    wait_turn(index);
}

void Server::wait_turn(std::uint32_t index) {
    Connection& connection = connections_[index];
    connection.waiting = true;
    waiting_.push(line(index), index);
    start_waiting();
    if (waiting_.size() > options_.waiting) shed();
}

// Each edition has places of its own, so that whoever waits for one of the one holds up nobody of the other. While one
// is to have the memory alone, none begins.
void Server::start_waiting() {
    const auto has_place = [&](std::uint32_t line) {
        const Generation* of = line == kLineBefore ? before_.get() : now_.get();
        return of != nullptr && of->alone == engine::kNoIndex && of->requests.any_free();
    };
    for (;;) {
        const std::uint32_t index = waiting_.pop(has_place);
        if (index == engine::kNoIndex) return;
        index < kFirstDatagram ? begin(index, false) : begin_datagram(index - kFirstDatagram, false);
    }
}

// One that waits is answered with the service's failure instead: the one whose turn would come last.
void Server::shed() {
    const std::uint32_t index = waiting_.pop_least();
    if (index >= kFirstDatagram) return shed_datagram(index - kFirstDatagram);
    Connection& connection = connections_[index];
    counters_of(connection).shed++;
    if (connection.generation->requests.any_spare()) return begin(index, true);
    // Where nothing can be said of it, the connection ends behind the replies that were made before.
    counters_of(connection).unanswered++;
    note_unanswered();
    connection.waiting = false;
    connection.leaving = true;
    mark(index);
}

void Server::note_unanswered() {
    static_assert(kShedPlaces == 64);
    fallbacks_->note("shed-unanswered",
                     "requests were shed without a reply: what answers them (`on failure`) waited for chains in all 64 "
                     "places that there are for it; let it reply without calling a chain, or give more --waiting");
}

void Server::begin(std::uint32_t index, bool is_shed) {
    Connection& connection = connections_[index];
    connection.waiting = false;
    const auto bytes = connection.input.bytes().first(request_length_[index]);
    const bool endless = cut_[index] != Cut::whole;
    if (cut_[index] == Cut::long_) counters_of(connection).too_long++;
    Requests& requests = connection.generation->requests;
    connection.output.use(connection.generation->lender, lends_from());
    const std::int32_t program = service_of(connection).on_request_tcp;
    if (endless || is_shed) {
        Requests::Unrun unrun{.ending = is_shed ? Ending::failed : Ending::malformed};
        if (!endless) unrun = requests.unrun(connection.service, program, bytes);
        unrun.shed = is_shed;
        connection.request = requests.start_failed(connection.service, unrun, bytes, connection.output, index);
    } else {
        connection.request = requests.start(connection.service, program, bytes, connection.output, index);
    }
    go_on(*connection.generation, connection.request);
}

void Server::go_on(Generation& generation, std::uint32_t slot) {
    const std::uint32_t index = generation.requests.connection(slot);
    const bool stream = index < kFirstDatagram;
    const RunState state = generation.requests.go_on(slot);
    if (stream) connections_[index].hungry = state == RunState::short_;
    switch (state) {
        case RunState::chain: break;
        case RunState::starved: generation.starved.push_back(slot); break;
        case RunState::yields: generation.yielding.push_back(slot); break;
        case RunState::short_:
            if (!stream) give_way(generation, slot);
            wait_for_memory(generation, slot);
            break;
        case RunState::full:
            if (!stream) return datagram_reply_too_long(generation, slot);
            connections_[index].blocked = true;
            // Who is told that his request is not run, and does not read that, keeps the place from nobody.
            if (connections_[index].slow || generation.requests.is_shed(slot)) generation.requests.park(slot);
            break;
        case RunState::ended: stream ? ended(generation, slot) : datagram_ended(generation, slot); break;
    }
    mark(index);
}

void Server::go_on_all(Generation& generation, std::vector<std::uint32_t>& slots) {
    generation.again.swap(slots);
    for (const std::uint32_t slot : generation.again) go_on(generation, slot);
    generation.again.clear();
}

void Server::ended(Generation& generation, std::uint32_t slot) {
    Requests& requests = generation.requests;
    const std::uint32_t index = requests.connection(slot);
    Connection& connection = connections_[index];
    ServiceCounters& counters = counters_of(connection);
    switch (requests.ending(slot)) {
        case Ending::answered: counters.answered++; break;
        case Ending::malformed: counters.malformed++; break;
        case Ending::failed: counters.failed++; break;
    }
    counters.payload_copies += requests.take_copies(slot);
    if (!requests.is_shed(slot)) counters.latency_ns.record(now_ns() - arrived_ns_[index]);
    // Behind a request without an end nothing can be told apart.
    connection.leaving = connection.leaving || requests.closes(slot) || cut_[index] != Cut::whole;
    connection.request = engine::kNoIndex;
    connection.slow = false;
    connection.output.end_reply();
    connection.input.pin(false);
    connection.input.take(request_length_[index]);
    connection.input.skip(requests.skips(slot));
    requests.release(slot);
}

void Server::completed(const engine::Engine& engine, const engine::Completion& completion) {
    Generation& generation = before_ && &before_->engine == &engine ? *before_ : *now_;
    if (const auto slot = generation.requests.take(completion)) go_on(generation, *slot);
    start_waiting();
}

// Everything is sent: the peer is told, and what it still sends is read, as closing with unread bytes would take the
// last replies away from it.
void Server::finish(std::uint32_t index) {
    Connection& connection = connections_[index];
    connection.input.clear();
    fill_input(connection);
    connection.input.clear();
    if (connection.at_end && connection.output.kept() != 0) return;
    if (connection.at_end || shutdown(connection.fd, SHUT_WR) != 0) {
        connection.broken = true;
        return drop(index);
    }
    connection.lingering = true;
    connection.request_deadline_ns = now_ns() + kLinger;
    mark(index);
}

// Takes a connection away. Its operations end first, because their completions name its place.
void Server::drop(std::uint32_t index) {
    Connection& connection = connections_[index];
    forget_idle(index);
    if (connection.waiting) waiting_.remove(line(index), index);
    connection.waiting = false;
    if (connection.request != engine::kNoIndex) {
        Generation& generation = *connection.generation;
        for (auto* list : {&generation.starved, &generation.yielding, &generation.short_of_memory})
            std::erase(*list, connection.request);
        connection.generation->requests.abandon(connection.request);
        connection.request = engine::kNoIndex;
    }
    connection.input.pin(false);
    while (connection.held_head != engine::kNoIndex) {
        connection.input.clear();
        fill_input(connection);
    }
    if (connection.receiving || connection.sending != 0) {
        if (!connection.shut) shutdown(connection.fd, SHUT_RDWR);
        connection.shut = true;
        return;
    }
    connection.output.abandon();
    if (connection.output.kept() != 0) {
        if (connection.broken) reset_peer(connection);
        return;
    }
    if (connection.untaken) reset_peer(connection);
    close(connection.fd);
    connection.fd = -1;
    counters_of(connection).open--;
    connection.generation->connections--;
    used_--;
    displaced_ -= connection.displaced ? 1 : 0;
    free_.push_back(index);
}

// Whether nothing that the peer has sent is on its way to us. What is in the socket no more may be in a buffer already
// that was not looked at yet, behind much else that has come.
bool Server::quiet(std::uint32_t index) const {
    const Connection& connection = connections_[index];
    if (connection.held_head != engine::kNoIndex) return false;
    int unread = 0;
    if (ioctl(connection.fd, FIONREAD, &unread) == 0 && unread != 0) return false;
    return !net_->any_received(index);
}

// Of a request of which some has come, the rest may be on its way although it has been sent: it is not at once that
// what fills one socket has gone over to the other.
bool Server::stays_quiet(std::uint32_t index, bool amid_request) {
    Connection& connection = connections_[index];
    if (!quiet(index)) {
        connection.quiet_until_ns = 0;
        return false;
    }
    if (!amid_request) return true;
    if (connection.quiet_until_ns == 0) connection.quiet_until_ns = now_ns() + kQuietAmidRequest;
    return now_ns() >= connection.quiet_until_ns;
}

// What its peer has sent meanwhile, and was not looked at yet, keeps it.
bool Server::is_idle_too_long(std::uint32_t index, std::uint64_t now) const {
    const Connection& connection = connections_[index];
    if (options_.idle_ns == 0 || connection.idle_line == engine::kNoIndex || connection.dirty) return false;
    return now - connection.idle_since_ns >= options_.idle_ns && quiet(index);
}

// What has come while it did nothing for a while, as when it was stopped, lies in the sockets: nobody is late before
// that was looked at, by the next time. Whoever has so little of a processor that all looks come late is not to wait
// for ever, though.
bool Server::was_stopped(std::uint64_t since_ns) {
    const bool late = used_ != 0 && now_ns() - since_ns >= kStopped;
    late_looks_ = late ? late_looks_ + 1 : 0;
    return late && late_looks_ <= kMostLateLooks;
}

void Server::give_up_late() {
    const std::uint64_t before = last_look_ns_;
    if (!is_due(last_look_ns_, kTickMs)) return;
    const std::uint64_t now = now_ns();
    const bool stopped = was_stopped(before);
    for (std::uint32_t i = 0, left = used_; left != 0 && i < connections_.size(); i++) {
        Connection& connection = connections_[i];
        if (!connection.used()) continue;
        left--;
        // Who has not got the last replies yet has the time for taking them, not that for closing.
        const bool taking = connection.output.kept() != 0;
        const bool untaken = !connection.broken && takes_nothing(connection, now);
        const bool begun = connection.request_deadline_ns != 0;
        const bool idle = begun && now > connection.request_deadline_ns && !(connection.lingering && taking);
        if (!connection.broken && !stopped && (untaken || idle)) {
            if (!connection.lingering || taking) counters_of(connection).timeouts++;
            connection.broken = true;
            connection.untaken = untaken;
            mark(i);
        }
        if (is_idle_too_long(i, now)) {
            counters_of(connection).idle_closed++;
            connection.broken = true;
            mark(i);
        }
        // Those that are to end are looked at until they are quiet.
        if (draining_ || connection.parting()) mark(i);
    }
}

void Server::drain() {
    if (draining_) return;
    draining_ = true;
    // Nobody waits for a link to come up again.
    for (std::uint32_t i = 0; i < interfaces_.size(); i++) {
        const Interface& each = interfaces_[i];
        if (each.port != nullptr && each.until_ns == 0) let_go(i, each.port->waits_for_link() ? 0 : kLettingGo);
    }
    for (std::uint32_t i = 0; i < listeners_.size(); i++)
        if (listeners_[i].fd >= 0) close_listener(i);
    if (rings_) rings_->drain();
    for (std::uint32_t i = 0; i < connections_.size(); i++)
        if (connections_[i].used()) mark(i);
}

}  // namespace chainio::service
