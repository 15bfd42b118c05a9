// Replies over tcp: what leaves by a send, what leaves from its frame without a copy, and until when the kernel may
// keep such a frame.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "runtime/net/clock.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

constexpr std::uint64_t kAtOnce = 4;             // times as long
constexpr std::size_t kGathered = 16384;         // bytes, which are worth a send
constexpr std::uint64_t kPlain = 1'000'000'000;  // ns, for which a kernel without memory is not asked again

using net::now_ns;

}  // namespace

// Sends what there is, no byte behind the first `limit`.
void Server::start_sending(std::uint32_t index, std::size_t limit) {
    Connection& connection = connections_[index];
    std::array<Output::Piece, Output::kMostPieces> room;
    std::array<Outgoing, Output::kMostPieces> outgoing;
    const auto pieces = connection.output.unsent(room, kOutput, limit);
    const std::uint64_t now = now_ns();
    for (std::size_t i = 0; i < pieces.size(); i++)
        outgoing[i] = {pieces[i].data, pieces[i].length, pieces[i].lent, buffer_for(connection, pieces[i], now)};
    connection.sending = static_cast<std::uint16_t>(
        net_->send(index, connection.fd, std::span<const Outgoing>(outgoing).first(pieces.size())));
    connection.send_deadline_ns = now + options_.timeout_ns;
    connection.gathering_ns = 0;
}

// Whether replies that are whole wait for those to the connection's next requests, which have come. A turn is short, so
// that others need not wait for it; a send for each turn and connection would take more time than what they have asked.
bool Server::gathers(std::uint32_t index) {
    Connection& connection = connections_[index];
    const bool answers = connection.request != engine::kNoIndex || connection.waiting;
    const bool goes_on = answers || (connection.dirty && connection.input.held() != 0);
    if (!goes_on || connection.blocked || connection.hungry || connection.leaving) return false;
    if (connection.output.of_whole() >= kGathered) return false;
    if (connection.gathering_ns == 0) connection.gathering_ns = now_ns();
    if (!std::exchange(connection.gathering, true)) gathering_.push_back(index);
    return true;
}

void Server::send_gathered(bool all) {
    if (gathering_.empty()) return;
    const std::uint64_t now = now_ns();
    const std::uint64_t each =
        all ? 0 : std::min<std::uint64_t>(options_.gather_ns * gathering_.size(), options_.most_gather_ns);
    std::erase_if(gathering_, [&](std::uint32_t index) {
        Connection& connection = connections_[index];
        const bool waits = connection.used() && !connection.broken && connection.gathering_ns != 0 &&
                           connection.output.of_whole() != 0;
        // Of what needs no chain, the next reply is there with the next turn.
        const bool at_once = connection.request == engine::kNoIndex && !connection.waiting;
        if (waits && now - connection.gathering_ns < (at_once ? kAtOnce * each : each)) return false;
        connection.gathering = false;
        if (waits) start_sending(index, connection.output.of_whole());
        return true;
    });
}

// The registered buffer from which a piece is sent without a copy, or -1.
int Server::buffer_for(Connection& connection, const Output::Piece& piece, std::uint64_t now) {
    if (piece.lent == Output::kText || options_.zero_copy_bytes == 0 || piece.length < options_.zero_copy_bytes)
        return -1;
    if (!net_->zero_copy() || now < connection.plain_until_ns) return -1;
    if (connection.peer == Peers::kUnknown) {
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        getpeername(connection.fd, reinterpret_cast<sockaddr*>(&address), &size);
        connection.peer = Peers::place_of(address);
    }
    if (peers_.copies(connection.peer, now)) return -1;
    const int buffer = connection.output.lender_of(piece.lent).engine.buffer_of(piece.data, piece.length);
    if (buffer < 0)
        fallbacks_->note("zero-copy-unregistered",
                         "replies are copied that lie in memory which is not registered with the sockets' io_uring");
    return buffer;
}

void Server::was_sent(const NetEvent& event) {
    Connection& connection = connections_[event.index];
    mark(event.index);
    if (event.let_go) return was_let_go(connection, event);
    connection.sending--;
    connection.idle_since_ns = 0;
    if (connection.sending == 0) connection.send_deadline_ns = 0;
    if (event.op == NetOp::send_zero_copy && event.more) {
        connection.output.keeps(event.part, event.result > 0);
        counters_of(connection).zero_copy_sends += event.result > 0 ? 1 : 0;
        if (connection.kept_deadline_ns == 0) connection.kept_deadline_ns = now_ns() + options_.timeout_ns;
    }
    if (event.result < 0) return send_failed(connection, event);
    counters_of(connection).bytes_out += static_cast<std::uint32_t>(event.result);
    connection.output.sent(static_cast<std::size_t>(event.result));
    // A reply that found no room goes on once all of what was there is sent.
    if (connection.blocked && connection.output.empty() && !connection.broken) {
        connection.blocked = connection.was_blocked = false;
        go_on(*connection.generation, connection.request);
    }
}

void Server::send_failed(Connection& connection, const NetEvent& event) {
    // Cancelled is what stands behind a send that did not take all.
    if (event.result == -EINTR || event.result == -EAGAIN || event.result == -ECANCELED) return;
    if (event.op == NetOp::send_zero_copy && !connection.broken) {
        const bool unknown = event.result == -EINVAL;
        if (unknown) net_->without_zero_copy();
        const bool short_of_memory = event.result == -ENOMEM || event.result == -ENOBUFS;
        // A socket of another kind of sending, as one in a map of sockets, says nothing of the others.
        const bool here = event.result == -EOPNOTSUPP || event.result == -EFAULT;
        if (unknown || short_of_memory || here) {
            connection.plain_until_ns = short_of_memory ? now_ns() + kPlain : UINT64_MAX;
            counters_of(connection).zero_copy_refused++;
            return;
        }
    }
    if (!connection.broken) counters_of(connection).vanished++;
    connection.broken = true;
}

// The kernel has no use for the bytes of an earlier send any more: the peer has them, or it was copied after all.
void Server::was_let_go(Connection& connection, const NetEvent& event) {
    const bool of_bytes = connection.output.let_go_of(event.part, event.copied);
    const std::uint64_t now = now_ns();
    connection.kept_deadline_ns = connection.output.kept() == 0 ? 0 : now + options_.timeout_ns;
    if (!of_bytes) return;
    if (!event.copied) return peers_.was_not_copied(connection.peer);
    counters_of(connection).zero_copy_copied++;
    if (peers_.was_copied(connection.peer, now))
        fallbacks_->note("zero-copy-copied",
                         "the kernel copies replies to some peers all the same (loopback, veth, devices that do not "
                         "gather); for a minute they are sent to plainly");
}

// Whether the time for taking is over. A send ends, and a frame is let go of, only once all that stands in front of it
// in the socket is taken, so that a late one may be on its way still: the socket knows.
bool Server::takes_nothing(Connection& connection, std::uint64_t now) const {
    const auto late = [now](std::uint64_t deadline_ns) { return deadline_ns != 0 && now > deadline_ns; };
    if (!late(connection.send_deadline_ns) && !late(connection.kept_deadline_ns)) return false;
    // An edition that has ended but for a reply that somebody takes slowly, or for its frames, holds up the next
    // reload.
    if (before_ && (connection.generation == before_.get() || connection.output.has_of(before_->lender))) return true;
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(connection.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
    if (std::exchange(connection.acknowledged, info.tcpi_bytes_acked) == info.tcpi_bytes_acked) return true;
    for (std::uint64_t* deadline_ns : {&connection.send_deadline_ns, &connection.kept_deadline_ns})
        if (late(*deadline_ns)) *deadline_ns = now + options_.timeout_ns;
    return false;
}

// Where requests wait for a place or for memory, a reply whose peer has not made room for it from one look to the next
// leaves its own to them, now and each time that it waits again.
void Server::take_places_of_slow() {
    if ((waiting_.empty() && !any_short()) || !is_due(places_looked_ns_, kEndingTickMs)) return;
    for (std::uint32_t i = 0, left = used_; left != 0 && i < connections_.size(); i++) {
        Connection& connection = connections_[i];
        if (!connection.used()) continue;
        left--;
        if (!connection.blocked || connection.slow || connection.request == engine::kNoIndex) continue;
        if (!std::exchange(connection.was_blocked, true)) continue;
        connection.slow = true;
        connection.generation->requests.park(connection.request);
    }
    start_waiting();
}

// What the kernel keeps for a peer that does not take it, it throws away when the connection is reset. After a close it
// would offer it for minutes, some megabytes a connection.
void Server::reset_peer(Connection& connection) {
    if (std::exchange(connection.reset_peer, true)) return;
    const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
    connect(connection.fd, &nobody, sizeof nobody);
}

}  // namespace chainio::service
