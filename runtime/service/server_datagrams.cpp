// The life of a datagram: its requests one after the other, and each one's reply in as many datagrams as it takes.
#include <fmt/format.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/engine/owners.h"
#include "runtime/net/clock.h"
#include "runtime/service/own_source.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

using net::now_ns;

// Whether it is one of many: multicast, in IPv6 or IPv4, or the broadcast of any network.
bool is_of_many(const in6_addr& address) {
    if (!IN6_IS_ADDR_V4MAPPED(&address)) return IN6_IS_ADDR_MULTICAST(&address);
    const std::uint32_t v4 = ntohl(address.s6_addr32[3]);
    return IN_MULTICAST(v4) || v4 == INADDR_BROADCAST;
}

// The reply leaves from the address to which the request came, by whichever way leads back. From one of many nothing
// may leave: the kernel chooses one of the interface's then.
void answer_from_there(std::span<std::uint8_t> control) {
    if (control.size() < sizeof(cmsghdr)) return;
    auto* header = reinterpret_cast<cmsghdr*>(control.data());
    if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
        reinterpret_cast<in_pktinfo*>(CMSG_DATA(header))->ipi_ifindex = 0;
    } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
        auto* info = reinterpret_cast<in6_pktinfo*>(CMSG_DATA(header));
        if (is_of_many(info->ipi6_addr)) {
            const bool v4 = IN6_IS_ADDR_V4MAPPED(&info->ipi6_addr);
            info->ipi6_addr = in6addr_any;
            if (v4) info->ipi6_addr.s6_addr16[5] = 0xffff;
            return;
        }
        if (!IN6_IS_ADDR_LINKLOCAL(&info->ipi6_addr)) info->ipi6_ifindex = 0;
    }
}

// Asked for its length (FIONREAD), a datagram without a byte would look like none.
bool holds_nothing(int fd) { return recv(fd, nullptr, 0, MSG_PEEK | MSG_DONTWAIT) < 0; }

}  // namespace

void Server::received_from(const NetEvent& event) {
    Listener& listener = listeners_[event.index];
    if (!event.more) listener.accepting = false;
    if (event.buffer == engine::kNoIndex) return;
    const auto received =
        event.result < 0 ? std::nullopt : net_->datagram(event.buffer, static_cast<std::size_t>(event.result));
    if (!received) return net_->give_back_datagram(event.buffer);
    const auto source = source_of(received->peer);
    if (source && comes_from_us(*source, *listener.generation, listener.service))
        return net_->give_back_datagram(event.buffer);
    Datagram& datagram = datagrams_[event.buffer];
    datagram.received = *received;
    answer_from_there(datagram.received.control);
    datagram.fd = listener.fd;
    datagrams_used_++;
    begin_with(event.buffer, *listener.generation, listener.service);
}

// Only of those whose port is one of ours the kernel is asked whether the address is, too. Who cannot be told from
// ourselves is not answered: what might begin would never end.
bool Server::comes_from_us(const Source& source, Generation& generation, std::uint32_t service) {
    const auto is_port = [&](const Listener& each) { return !each.tcp && each.fd >= 0 && each.port == source.port; };
    if (std::ranges::none_of(listeners_, is_port)) return false;
    const auto own = is_own(source);
    if (own && !*own) return false;
    generation.udp_counters[service]->datagrams++;
    generation.udp_counters[service]->unanswered++;
    if (own)
        fallbacks_->note("own-source",
                         "datagrams that say to come from this machine, and from a port that is served, are not "
                         "answered: the answer would be the next request; have a filter drop what comes from a network "
                         "with such a source");
    else
        fallbacks_->note("own-source",
                         fmt::format("datagrams from a port that is served are not answered, as the kernel cannot be "
                                     "asked whether their source is this machine: {}",
                                     std::strerror(own.error())));
    return true;
}

void Server::begin_with(std::uint32_t index, Generation& generation, std::uint32_t service) {
    Datagram& datagram = datagrams_[index];
    datagram.generation = &generation;
    datagram.service = service;
    datagram.answer.use(generation.engine, longest_answer(datagram));
    datagram.rest = datagram.received.bytes;
    datagram.request_length = 0;
    datagram.used = true;
    generation.connections++;
    counters_of(datagram).datagrams++;
    counters_of(datagram).bytes_in += datagram.rest.size();
    look_for_datagram_request(index);
}

std::size_t Server::longest_answer(const Datagram& datagram) const {
    if (datagram.ring_client != engine::kNoIndex) return rings_->room(datagram.ring_client, datagram.ring_frame).size();
    return service_of(datagram).on_datagram >= 0 ? kMostDatagrams * options_.datagram_bytes : kLongestDatagram;
}

// Where a request of it waits. It ends under the spec with which it began, whose classes need not be those of a newer
// one that has come meanwhile: it has none then.
std::uint16_t Server::rank_of(const Datagram& datagram) const {
    if (datagram.generation == now_.get()) return now_->rank_of(datagram.service);
    return static_cast<std::uint16_t>(now_->module.classes.size());
}

// A datagram's fixed fields stand once at its begin; the requests behind them follow one another.
void Server::look_for_datagram_request(std::uint32_t index) {
    Datagram& datagram = datagrams_[index];
    const ir::Framing& framing = service_of(datagram).udp_framing;
    datagram.request_length = datagram.rest.size();
    if (!framing.end.empty() && datagram.rest.size() > framing.bytes) {
        const auto from = datagram.rest.subspan(framing.bytes);
        const void* found = memmem(from.data(), from.size(), framing.end.data(), framing.end.size());
        if (found != nullptr)
            datagram.request_length =
                static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - datagram.rest.data()) +
                framing.end.size();
    }
    datagram.arrived_ns = now_ns();
    datagram.dropped = false;
    counters_of(datagram).requests++;
    datagram.waiting = true;
    datagram.rank = rank_of(datagram);
    waiting_.push(line(kFirstDatagram + index), kFirstDatagram + index);
    start_waiting();
    if (waiting_.size() > options_.waiting) shed();
}

void Server::begin_datagram(std::uint32_t index, bool is_shed) {
    Datagram& datagram = datagrams_[index];
    datagram.waiting = false;
    const auto bytes = datagram.rest.first(datagram.request_length);
    const std::uint32_t number = kFirstDatagram + index;
    Requests& requests = datagram.generation->requests;
    const std::int32_t program = service_of(datagram).on_request_udp;
    const bool too_long = datagram.received.cut || bytes.size() > options_.request_bytes;
    if (!is_shed && too_long) counters_of(datagram).too_long++;
    if (is_shed || too_long) {
        Requests::Unrun unrun = requests.unrun(datagram.service, program, bytes);
        if (!is_shed) unrun.ending = Ending::malformed;
        unrun.shed = is_shed;
        datagram.request = requests.start_failed(datagram.service, unrun, bytes, datagram.answer, number);
    } else {
        datagram.request = requests.start(datagram.service, program, bytes, datagram.answer, number);
    }
    go_on(*datagram.generation, datagram.request);
}

void Server::shed_datagram(std::uint32_t index) {
    Datagram& datagram = datagrams_[index];
    counters_of(datagram).shed++;
    if (datagram.generation->requests.any_spare()) return begin_datagram(index, true);
    counters_of(datagram).unanswered++;
    note_unanswered();
    datagram.waiting = false;
    const auto bytes = datagram.rest.first(datagram.request_length);
    const auto unrun =
        datagram.generation->requests.unanswered(datagram.service, service_of(datagram).on_request_udp, bytes);
    const bool is_last = unrun.closes || datagram.received.cut || unrun.skips > ir::kMaxSkip;
    datagram.skip(is_last ? UINT64_MAX : unrun.skips);
    mark(kFirstDatagram + index);
}

// Throws away what the reply holds, once, for what the spec says of a failure. Where that cannot be sent either,
// nothing is.
void Server::drop_datagram_reply(Generation& generation, std::uint32_t slot) {
    Datagram& datagram = datagrams_[generation.requests.connection(slot) - kFirstDatagram];
    datagram.answer.clear();
    if (datagram.dropped) return datagram_ended(generation, slot);
    datagram.dropped = true;
    generation.requests.fail(slot);
    go_on(generation, slot);
}

void Server::datagram_ended(Generation& generation, std::uint32_t slot) {
    Requests& requests = generation.requests;
    const std::uint32_t index = requests.connection(slot) - kFirstDatagram;
    Datagram& datagram = datagrams_[index];
    ServiceCounters& counters = counters_of(datagram);
    if (requests.is_torn(slot)) {
        if (!datagram.dropped) return drop_datagram_reply(generation, slot);
        datagram.answer.clear();
    }
    const Ending ending = requests.ending(slot);
    const bool closes = requests.closes(slot);
    // Who answers a request with nothing has been asked for that, as memcached's `quit` does.
    Sent sent = ending == Ending::answered ? Sent::all : Sent::nothing;
    if (datagram.answer.length() != 0) sent = send_reply(index, slot);
    if (sent == Sent::too_long) return datagram_reply_too_long(generation, slot);
    counters.unanswered += sent == Sent::nothing ? 1 : 0;
    switch (ending) {
        case Ending::answered: counters.answered++; break;
        case Ending::malformed: counters.malformed++; break;
        case Ending::failed: counters.failed++; break;
    }
    counters.payload_copies += requests.take_copies(slot);
    if (!requests.is_shed(slot)) counters.latency_ns.record(now_ns() - datagram.arrived_ns);
    // What is behind a request that ends the connection is not looked at, nor what is left of a datagram that was
    // longer than there is room for: each of its lines would be answered that it is too long.
    datagram.skip(closes || datagram.received.cut ? UINT64_MAX : requests.skips(slot));
    datagram.request = engine::kNoIndex;
    if (generation.alone == slot) generation.alone = engine::kNoIndex;
    requests.release(slot);
    if (datagram.sending == 0) datagram.answer.clear();
    mark(kFirstDatagram + index);
}

Server::Sent Server::without_begin(const Datagram& datagram, std::uint32_t slot) {
    if (datagram.generation->requests.head_too_long(slot))
        fallbacks_->note("long-datagram-begin",
                         fmt::format("a reply of service '{}' is not sent: `on datagram` writes more than {} bytes",
                                     service_of(datagram).name, kDatagramHead));
    return Sent::nothing;
}

// Longer than may be sent: nothing was, and something shorter may be said instead.
Server::Sent Server::send_reply(std::uint32_t index, std::uint32_t slot) {
    Datagram& datagram = datagrams_[index];
    if (datagram.ring_client != engine::kNoIndex) return send_by_ring(datagram, slot);
    Answer& answer = datagram.answer;
    Requests& requests = datagram.generation->requests;
    const std::int32_t program = service_of(datagram).on_datagram;
    std::array<std::uint8_t, kDatagramHead> head{};
    std::size_t head_length = 0, longest = longest_payload(datagram);
    if (program >= 0) {
        // Without it nobody could tell which request the reply belongs to: it is not sent.
        const auto written = requests.datagram_head(slot, program, 0, 1, head);
        if (!written) return without_begin(datagram, slot);
        head_length = *written;
        longest = std::min(options_.datagram_bytes, longest);
    }
    const auto count_of = [&](std::size_t most) {
        return most <= head_length ? SIZE_MAX : (answer.length() + most - head_length - 1) / (most - head_length);
    };
    const std::size_t most = program < 0 ? 1 : kMostDatagrams;
    if (count_of(longest) > most) return Sent::too_long;
    // Where what they begin with differs in length, as numbers in decimals do, the longest leaves room for all others.
    const auto cut_by = [&](std::size_t limit) -> std::optional<std::size_t> {
        std::size_t cut = count_of(limit);
        while (program >= 0 && cut > 1 && cut <= most) {
            const auto written = requests.longest_head(slot, program, cut, head);
            if (!written) return std::nullopt;
            if (*written <= head_length) break;
            head_length = *written;
            cut = count_of(limit);
        }
        return cut;
    };
    bool by_socket = datagram.port == engine::kNoIndex;
    const std::size_t single_head = head_length;
    const std::size_t on_way = longest_on_way(datagram, std::min(longest, head_length + answer.length()));
    auto pieces = cut_by(on_way);
    if (pieces && *pieces > most && !by_socket) {
        if (by_socket = go_by_socket(datagram); !by_socket) return Sent::too_long;
        head_length = single_head;
        pieces = cut_by(longest);
    } else {
        longest = on_way;
    }
    if (!pieces) return without_begin(datagram, slot);
    const std::size_t count = *pieces;
    if (count > most || !answer.make_heads(count)) return Sent::too_long;
    longest -= head_length;
    if (!by_socket && !interfaces_[datagram.port].port->begin_reply(answer.frames(), engine::kHandedOut))
        return Sent::too_long;
    for (std::size_t number = 0; number < count; number++) {
        const engine::Stretch room = answer.head(number);
        // That of a single one was written above.
        const bool is_written = program < 0 || count == 1;
        const std::size_t length =
            is_written ? head_length : requests.datagram_head(slot, program, number, count, head).value_or(0);
        const engine::Stretch begin{room.frame, static_cast<std::uint32_t>(room.offset + room.length - length),
                                    static_cast<std::uint32_t>(length)};
        std::copy_n(head.begin(), length, answer.data(begin));
        std::array<engine::Stretch, Answer::kMostStretches + 1> stretches;
        std::size_t made = answer.cut(begin, number * longest, longest, stretches);
        if (count == 1) made = answer.join({stretches.data(), made});
        if (!by_socket && count == 1) keep_reply(datagram, slot, {stretches.data(), made});
        if (by_socket)
            send_stretches(index, {stretches.data(), made});
        else
            send_frames(datagram, {stretches.data(), made});
    }
    if (!by_socket) {
        interfaces_[datagram.port].port->end_reply(answer.frames());
        answer.forget();
    }
    return Sent::all;
}

void Server::send_stretches(std::uint32_t index, std::span<const engine::Stretch> stretches) {
    Datagram& datagram = datagrams_[index];
    std::array<iovec, Net::kMostParts> parts;
    std::size_t count = 0;
    for (const engine::Stretch& stretch : stretches) {
        if (stretch.length == 0) continue;
        parts[count++] = {datagram.answer.data(stretch), stretch.length};
    }
    datagram.sending++;
    net_->send_to(index, datagram.fd, datagram.received, {parts.data(), count});
}

void Server::was_sent_to(const NetEvent& event) {
    Datagram& datagram = datagrams_[event.index];
    ServiceCounters& counters = counters_of(datagram);
    if (event.result < 0)
        counters.vanished++;
    else
        counters.bytes_out += static_cast<std::uint32_t>(event.result);
    if (--datagram.sending != 0) return;
    datagram.answer.clear();
    mark(kFirstDatagram + event.index);
}

void Server::settle_datagram(std::uint32_t index) {
    Datagram& datagram = datagrams_[index];
    if (!datagram.used || datagram.waiting || datagram.request != engine::kNoIndex || datagram.sending != 0) return;
    const std::size_t fixed = service_of(datagram).udp_framing.bytes;
    if (datagram.rest.size() > datagram.request_length && datagram.request_length > fixed) {
        // The fields in front go along to the next request, over the end of the one that is done.
        std::uint8_t* next = datagram.rest.data() + datagram.request_length - fixed;
        std::memmove(next, datagram.rest.data(), fixed);
        datagram.rest = datagram.rest.subspan(datagram.request_length - fixed);
        return look_for_datagram_request(index);
    }
    datagram.used = false;
    datagram.fd = -1;
    datagram.generation->connections--;
    if (datagram.ring_client != engine::kNoIndex) return settle_ring(index);
    if (datagram.port != engine::kNoIndex) {
        interfaces_[datagram.port].port->release(datagram.frame);
        return free_xdp_.push_back(index);
    }
    datagrams_used_--;
    net_->give_back_datagram(index);
}

// Asks for datagrams where nothing does (at the start, and after a time without a free buffer), and closes what is to
// be closed once it is empty. True: something was done.
bool Server::settle_sockets() {
    bool worked = false;
    for (std::uint32_t i = 0; i < listeners_.size(); i++) {
        Listener& listener = listeners_[i];
        if (listener.tcp || listener.fd < 0) continue;
        const bool quiet = listener.leaving && (now_ns() >= listener.leaving_until_ns || holds_nothing(listener.fd));
        if (listener.accepting && quiet && !listener.stopping) {
            listener.stopping = worked = true;
            net_->stop_receiving_from(i);
        } else if (!listener.accepting && listener.leaving && (quiet || listener.stopping)) {
            const auto leaves_by_it = [&](const Datagram& each) { return each.used && each.fd == listener.fd; };
            if (std::ranges::any_of(datagrams_, leaves_by_it)) continue;
            close(listener.fd);
            listener.fd = -1;
            listener.generation->closing--;
        } else if (!listener.accepting && !listener.stopping && datagrams_used_ < Net::kDatagrams) {
            listener.accepting = worked = true;
            net_->receive_from(i, listener.fd);
        }
    }
    return worked;
}

void Server::count_dropped(Listener& listener) {
    std::array<std::uint32_t, SK_MEMINFO_VARS> of_socket{};
    socklen_t size = sizeof of_socket;
    if (getsockopt(listener.fd, SOL_SOCKET, SO_MEMINFO, of_socket.data(), &size) != 0) return;
    const std::uint32_t dropped = of_socket[SK_MEMINFO_DROPS];  // which may begin again at 0
    listener.generation->udp_counters[listener.service]->dropped += dropped - std::exchange(listener.dropped, dropped);
}

void Server::look_for_dropped() {
    for (Listener& listener : listeners_)
        if (!listener.tcp && listener.fd >= 0 && !listener.leaving) count_dropped(listener);
}

}  // namespace chainio::service
