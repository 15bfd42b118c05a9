#include "runtime/net/port.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/net/peer.h"
#include "runtime/net/shortage.h"

namespace chainio::net {
namespace {

std::uint64_t dropped_of(const xdp_statistics& queue) { return queue.rx_dropped + queue.rx_ring_full; }

constexpr std::uint32_t kHeadroom = 256;  // that the kernel leaves in front of what it receives
// The MTU whose packets all fit into a frame, with two VLAN tags and a frame check, as Linux counts.
constexpr unsigned kLongestAlone = kChunk - kHeadroom - kEthernet - 12;
constexpr std::uint32_t kLongestPacket = kEthernet + 65535;
constexpr std::size_t kLine = 64, kFetched = 2 * kLine;  // of a packet: its headers, and where the request begins
constexpr unsigned kMostFds = kMostQueues;

bool driver_has_zero_copy(const Interface& interface) {
    return (driver_features(interface).value_or(0) & kZeroCopyFeature) != 0;
}

Refusal bind_refusal(const Interface& interface, const PortOptions& options, unsigned queue, int error) {
    const std::string what = fmt::format("an AF_XDP socket cannot be bound to queue {} of {}", queue, interface.name);
    const auto because = [&](Refusal::Why why, std::string_view words) {
        return Refusal{why, fmt::format("{}: {}", what, words)};
    };
    switch (error) {
        case EPERM: return because(Refusal::Why::not_permitted, "run as root, or with CAP_NET_RAW and CAP_NET_ADMIN");
        case EBUSY: return because(Refusal::Why::busy, "another AF_XDP socket has that queue");
        case ENOBUFS:
            return because(Refusal::Why::system,
                           "too little memory may be locked; `ulimit -l unlimited`, or CAP_IPC_LOCK");
        case EOPNOTSUPP:
        case EINVAL:
            if (options.copy == Copy::zero_copy)
                return because(
                    Refusal::Why::unsupported,
                    driver_has_zero_copy(interface) && interface.mtu > kLongestAlone
                        ? fmt::format("its driver has no zero-copy mode for packets of several frames, which an MTU of "
                                      "{} needs; set one of at most {}, or take copy mode",
                                      interface.mtu, kLongestAlone)
                        : "its driver has no zero-copy mode; copy mode works with any");
            break;
        default: break;
    }
    Refusal refused = because(Refusal::Why::system, std::strerror(error));
    refused.shortage = lacks_descriptor(error);
    return refused;
}

std::expected<unsigned, Refusal> queues_of(const Interface& interface, const PortOptions& options) {
    const auto refuse = [](std::string words) {
        return std::unexpected(Refusal{Refusal::Why::unsupported, std::move(words)});
    };
    if (options.ports.empty()) return refuse("no UDP port is declared, so nothing would be taken");
    if (std::ranges::count(options.ports, 0) != 0) return refuse("UDP port 0 cannot be served");
    if (!std::has_single_bit(options.entries) || options.entries < 64 || options.entries > 16384)
        return refuse(fmt::format("frames a queue are a power of two, 64 to 16384, not {}", options.entries));
    if (!interface.ethernet)
        return refuse(
            fmt::format("{} has no Ethernet packets, as a tunnel's, and only of these datagrams are taken; give "
                        "the interface that its packets leave by, or serve the port `via uring`",
                        interface.name));
    // The kernel drops IPv4 there that comes from the machine's own address and from none of its sockets.
    if (interface.loopback)
        return refuse(
            fmt::format("{} has what this machine sends to itself, and takes replies from its sockets alone; give the "
                        "interface that clients come by, or serve the port `via uring`",
                        interface.name));
    // Its addresses may not be there yet, and they decide what is taken.
    if (!interface.up)
        return refuse(fmt::format("{} is down: `ip link set {} up` first", interface.name, interface.name));
    const unsigned wanted = options.queues == 0 ? interface.queues : options.queues;
    if (wanted > interface.queues)
        return refuse(fmt::format("{} has {} receive queues, not {}", interface.name, interface.queues, wanted));
    if (wanted > kMostQueues)
        return refuse(fmt::format("at most {} queues can be served, not {}", kMostQueues, wanted));
    return wanted;
}

bool keeps(const PortOptions& options) {
    return std::ranges::any_of(options.kept, [](const KeptService& service) { return service.entries != 0; });
}

// Without what is to be kept, where there is no other way.
std::expected<Program, Refusal> attach(const Interface& interface, const PortOptions& options,
                                       metrics::Fallbacks& fallbacks) {
    auto program = Program::attach(interface, options.attach, options.share, ReplyTable(options.kept));
    const bool too_much = !program && program.error().why == Refusal::Why::system && !program.error().shortage;
    if (!too_much || !keeps(options)) return program;
    auto none = options.kept;
    for (KeptService& service : none) service.entries = 0;
    auto without = Program::attach(interface, options.attach, options.share, ReplyTable(std::move(none)));
    if (without)
        fallbacks.note("xdp-cache-refused",
                       fmt::format("{} keeps no replies: {}", interface.name, program.error().message));
    return without;
}

// In zero-copy mode Linux leaves no room in front of what a program sends back, where virtio_net wants its own header,
// and so drops it.
bool loses_what_is_sent_back(const Interface& interface) { return interface.driver == "virtio_net"; }

std::string why_copied(std::string_view of, const Interface& interface, bool keeps) {
    if (!driver_has_zero_copy(interface))
        return fmt::format("the driver of {} has no zero-copy mode; the kernel copies packets", of);
    if (keeps && loses_what_is_sent_back(interface))
        return fmt::format(
            "in zero-copy mode the driver of {} drops what an XDP program sends back, which the services' "
            "caches live on; the kernel copies packets (zero-copy can be demanded)",
            of);
    if (interface.mtu > kLongestAlone)
        return fmt::format(
            "the driver of {} has no zero-copy mode for packets of several frames, which an MTU of {} may "
            "take; the kernel copies packets (not with an MTU of {} or less)",
            of, interface.mtu, kLongestAlone);
    return fmt::format("the zero-copy mode of the driver of {} cannot be had here; the kernel copies packets", of);
}

}  // namespace

Port::Port(Interface interface, Program program, umem::Slab& slab, std::uint16_t number)
    : interface_(std::move(interface)),
      program_(std::move(program)),
      path_mtu_(program_.paths(), program_.seed()),
      slab_(slab),
      owners_(number),
      chunks_(slab.region().size() / kChunk) {}

std::expected<std::unique_ptr<Port>, Refusal> Port::open(const PortOptions& options, umem::Slab& slab,
                                                         metrics::Fallbacks& fallbacks) {
    auto interface = find_interface(options.interface);
    if (!interface)
        return std::unexpected(
            Refusal{Refusal::Why::no_interface, interface.error().message, interface.error().unasked});
    const auto queues = queues_of(*interface, options);
    if (!queues) return std::unexpected(queues.error());
    auto program = attach(*interface, options, fallbacks);
    if (!program) return std::unexpected(program.error());
    std::unique_ptr<Port> port(new Port(std::move(*interface), std::move(*program), slab, options.number));
    const bool copied = options.copy == Copy::automatic && keeps(options) && loses_what_is_sent_back(port->interface_);
    const QueueOptions queue_options{.interface = port->interface_.device,
                                     .entries = options.entries,
                                     .copy = copied ? Copy::copy : options.copy,
                                     .need_wakeup = options.need_wakeup,
                                     .multi_buffer = options.multi_buffer,
                                     .long_packets = port->interface_.mtu > kLongestAlone};
    for (unsigned number = 0; number < *queues; number++) {
        auto queue = Queue::create(port->umem_, slab.region(), queue_options, number, port->mode_);
        if (!queue) return std::unexpected(bind_refusal(port->interface_, options, number, queue.error()));
        port->queues_.push_back(std::move(*queue));
        port->post(*port->queues_.back());
        const int fd = port->queues_.back()->fd();
        if (bpf_map_update_elem(port->program_.sockets_map(), &number, &fd, BPF_ANY) != 0)
            return std::unexpected(
                Refusal{Refusal::Why::system,
                        fmt::format("an AF_XDP socket cannot be given to the XDP program: {}", std::strerror(errno))});
    }
    port->assembling_.assign(*queues, umem::kNoFrame);
    port->last_.assign(*queues, umem::kNoFrame);
    const bool frames = port->mode_.multi_buffer && !options.whole_requests;
    port->longest_frame_ = frames ? kLongestPacket : kChunk - kHeadroom;
    port->ports_ = options.ports;
    port->whole_requests_ = options.whole_requests;
    port->bound_ = options.bound;
    if (auto taken = port->take({port->interface_.addresses, port->interface_.others}); !taken)
        return std::unexpected(taken.error());
    port->note_fallbacks(options, fallbacks);
    return port;
}

Port::~Port() {
    // Closed first: after that no frame is the kernel's.
    queues_.clear();
    for (std::size_t i = 0; i < chunks_.size(); i++) {
        const auto frame = static_cast<umem::Frame>(i * (kChunk / umem::kUnit));
        const umem::Owner owner = slab_.owner(frame);
        if (owners_.have(owner)) slab_.release(frame, owner);
    }
}

void Port::note_fallbacks(const PortOptions& options, metrics::Fallbacks& fallbacks) const {
    const std::string of =
        interface_.driver.empty() ? interface_.name : fmt::format("{} ({})", interface_.name, interface_.driver);
    if (options.attach == Attach::automatic && !program_.native())
        fallbacks.note("xdp-generic",
                       fmt::format("the driver of {} {}", of,
                                   runs_on_members(interface_)
                                       ? "runs XDP programs on its members, whose packets reach no socket of it; the "
                                         "kernel runs ours, later"
                                       : "runs no XDP programs; the kernel does, later"));
    if (!program_.alone().empty())
        fallbacks.note("xdp-alone", fmt::format("no XDP program of others can be attached to {} meanwhile, as libxdp's "
                                                "dispatcher cannot be had: {}",
                                                interface_.name, program_.alone()));
    if (!path_mtu_.can_ask())
        fallbacks.note("xdp-path-unknown",
                       fmt::format("no netlink socket (`RestrictAddressFamilies=AF_NETLINK` lets systemd's services "
                                   "have one): replies go by the MTU of {}, and are lost where the way takes less",
                                   interface_.name));
    if (options.copy == Copy::automatic && !mode_.zero_copy)
        fallbacks.note("xdp-copy", why_copied(of, interface_, keeps(options)));
    if (options.multi_buffer && !mode_.multi_buffer)
        fallbacks.note("xdp-single-buffer",
                       mode_.zero_copy
                           ? fmt::format("the driver of {} has no packets of several frames in zero-copy mode; longer "
                                         "requests are the kernel's, replies that lie in two frames are copied",
                                         of)
                           : "the kernel has no multi-buffer AF_XDP: Linux 6.6 has; longer requests are the kernel's, "
                             "replies that lie in two frames are copied");
}

std::size_t Port::receive(std::span<umem::Descriptor> out) {
    std::size_t count = 0;
    for (unsigned turn = 0; turn < queues_.size() && count < out.size(); turn++) {
        const unsigned number = (first_queue_ + turn) % static_cast<unsigned>(queues_.size());
        Queue& queue = *queues_[number];
        std::uint32_t index = 0;
        // A descriptor of the kernel ends at most one request, so that there is room for what is taken here.
        const std::uint32_t there =
            xsk_ring_cons__peek(&queue.rx, static_cast<std::uint32_t>(out.size() - count), &index);
        for (std::uint32_t i = 0; i < there; i++) fetch(*xsk_ring_cons__rx_desc(&queue.rx, index + i));
        for (std::uint32_t i = 0; i < there; i++)
            received(queue, number, *xsk_ring_cons__rx_desc(&queue.rx, index + i), out, count);
        xsk_ring_cons__release(&queue.rx, there);
        post(queue);
    }
    first_queue_ = (first_queue_ + 1) % static_cast<unsigned>(queues_.size());
    return count;
}

std::size_t Port::came() {
    std::size_t count = 0;
    for (const auto& queue : queues_) {
        std::uint32_t index = 0;
        const std::uint32_t there = xsk_ring_cons__peek(&queue->rx, queue->rx.size, &index);
        xsk_ring_cons__cancel(&queue->rx, there);
        count += there;
    }
    return count;
}

// What is looked at first of a packet was written by another processor: it is asked for all packets of a turn at once,
// instead of waiting for one after the other.
void Port::fetch(const xdp_desc& desc) const {
    if (desc.addr >= slab_.region().size()) return;
    const std::uint8_t* at = slab_.region().base() + desc.addr;
    for (std::size_t line = 0; line < kFetched; line += kLine) __builtin_prefetch(at + line);
}

void Port::received(Queue& queue, unsigned number, const xdp_desc& desc, std::span<umem::Descriptor> out,
                    std::size_t& count) {
    const auto frame = static_cast<umem::Frame>(desc.addr / kChunk * (kChunk / umem::kUnit));
    if (desc.addr >= slab_.region().size() || !slab_.transfer(frame, owners_.posted(), owners_.received())) {
        counters_.malformed++;
        return;
    }
    queue.posted--;
    Chunk& part = chunk(frame) = Chunk{};
    part.begin = static_cast<std::uint16_t>(desc.addr % kChunk);
    part.length = static_cast<std::uint16_t>(desc.len);
    part.queue = static_cast<std::uint16_t>(sender(number));
    umem::Frame& first = assembling_[number];
    if (first == umem::kNoFrame) {
        first = frame;
    } else {
        chunk(last_[number]).next = frame;
    }
    last_[number] = frame;
    if ((desc.options & XDP_PKT_CONTD) != 0) return;

    const umem::Frame whole = std::exchange(first, umem::kNoFrame);
    std::size_t bytes = 0, parts = 0;
    for (umem::Frame each = whole; each != umem::kNoFrame; each = chunk(each).next) {
        bytes += chunk(each).length;
        parts++;
    }
    Chunk& begin = chunk(whole);
    const auto headers = parse({slab_.data(whole) + begin.begin, begin.length}, bytes);
    // Whoever wants whole requests reads them where they begin, as far as their length says.
    const bool cut =
        whole_requests_ && headers && (parts != 1 || headers->payload_length > begin.length - headers->bytes);
    if (!headers || parts > kMostParts || cut) {
        counters_.malformed++;
        give_back(whole);
        return;
    }
    begin.header_bytes = headers->bytes;
    begin.v6 = headers->v6;
    counters_.received++;
    unanswered_++;
    out[count++] = {.kind = umem::Kind::receive,
                    .class_index = 0,
                    .step = 0,
                    .frame = whole,
                    .offset = static_cast<std::uint32_t>(begin.begin) + headers->bytes,
                    .length = headers->payload_length,
                    .target = number,
                    .chain = 0,
                    .serial = ++serial_,
                    .depends_on = 0};
}

void Port::give_back(umem::Frame first) {
    while (first != umem::kNoFrame) {
        const umem::Frame next = chunk(first).next;
        chunk(first) = Chunk{};
        slab_.release(first, owners_.received());
        first = next;
    }
}

bool Port::is_request(const umem::Descriptor& descriptor) const {
    if (descriptor.frame % (kChunk / umem::kUnit) != 0) return false;
    if (descriptor.frame / (kChunk / umem::kUnit) >= chunks_.size()) return false;
    return slab_.owner(descriptor.frame) == owners_.received() && chunk(descriptor.frame).header_bytes != 0;
}

bool Port::release(const umem::Descriptor& request) {
    if (!is_request(request)) return false;
    give_back(request.frame);
    unanswered_--;
    counters_.released++;
    return true;
}

void Port::post(Queue& queue) {
    const std::uint32_t wanted = queue.fill.size - queue.posted;
    if (wanted == 0) return;
    const std::uint32_t room = std::min(wanted, xsk_prod_nb_free(&queue.fill, wanted));
    std::uint32_t posted = 0;
    for (std::uint32_t index = 0; posted < room; posted++) {
        const umem::Frame frame = slab_.allocate(kChunk, owners_.posted());
        if (frame == umem::kNoFrame) {
            counters_.no_frame++;
            break;
        }
        xsk_ring_prod__reserve(&queue.fill, 1, &index);
        *xsk_ring_prod__fill_addr(&queue.fill, index) = std::uint64_t{frame} * umem::kUnit;
    }
    // All at once: the kernel looks, on another processor, at what is written here.
    if (posted != 0) xsk_ring_prod__submit(&queue.fill, posted);
    queue.posted += posted;
}

void Port::reap(Queue& queue) {
    std::uint32_t index = 0;
    const std::uint32_t there = xsk_ring_cons__peek(&queue.completion, queue.completion.size, &index);
    for (std::uint32_t i = 0; i < there; i++) {
        const std::uint64_t at = *xsk_ring_cons__comp_addr(&queue.completion, index + i);
        if (at >= slab_.region().size()) continue;
        let_go(chunks_[at / kChunk].head);
    }
    xsk_ring_cons__release(&queue.completion, there);
}

// One piece of the frame has left.
void Port::let_go(umem::Frame frame) {
    if (frame == umem::kNoFrame || chunk(frame).pending == 0 || --chunk(frame).pending != 0) return;
    chunk(frame) = Chunk{};
    slab_.release(frame, owners_.sending());
    sending_--;
}

// True: something is left, and has to be tried again without an event.
bool Port::kick(Queue& queue) {
    // The kernel sends 32 at a time in copy mode, so one kick does not always do; EBUSY ends it at each packet that the
    // driver drops, which is off the ring then.
    std::uint32_t turns = 0, dropped = 0;
    while (queue.unsent()) {
        if (mode_.need_wakeup && !xsk_ring_prod__needs_wakeup(&queue.tx)) return false;
        // A driver in zero-copy mode fetches by itself, soon after it is told.
        if (mode_.zero_copy && turns > 0) return true;
        if (turns > queue.tx.size / 32 || dropped > queue.tx.size) return true;
        counters_.kicks++;
        const std::uint32_t before = queue.fetched();
        if (sendto(queue.send_fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) {
            // From a queue that is no more the kernel takes nothing, and says nothing.
            if (!mode_.zero_copy && queue.fetched() == before) return true;
            turns++;
        } else if (errno == EBUSY) {
            dropped++;
        } else if (errno == EAGAIN) {
            turns++;
            reap(queue);
        } else {
            if (errno != ENETDOWN && errno != ENXIO) return true;
            counters_.down++;
            down_ = true;
            return false;
        }
    }
    return false;
}

void Port::flush() {
    unsent_ = down_ = false;
    for (auto& queue : queues_) {
        unsent_ = kick(*queue) || unsent_;
        reap(*queue);
        post(*queue);
        if (mode_.need_wakeup && xsk_ring_prod__needs_wakeup(&queue->fill))
            recvfrom(queue->fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
    }
}

void Port::stop_taking() {
    for (std::uint32_t number = 0; number < queues_.size(); number++)
        bpf_map_delete_elem(program_.sockets_map(), &number);
    program_.replies().stop();
}

// The program may look at the table while it is written: what it does not find then is the kernel's.
std::expected<void, Refusal> Port::look_at_addresses() {
    auto now = addresses_of(interface_.index);
    if (now) return take(std::move(*now));
    return std::unexpected(Refusal{Refusal::Why::system, fmt::format("cannot ask for the addresses of '{}': {}",
                                                                     interface_.name, std::strerror(errno))});
}

// Datagrams to addresses at which services listen, and none from any that the machine has. Of too many,
// those that are taken already stay so.
std::expected<void, Refusal> Port::take(Addresses now) {
    const auto is_in = [](const std::vector<Address>& list) {
        return [&list](const Address& each) { return std::ranges::find(list, each) != list.end(); };
    };
    auto heard = heard_at(bound_, now.own);
    const bool too_many = taking_ && heard.size() > CIO_XDP_ADDRESSES;
    if (too_many) {
        std::ranges::partition(heard, is_in(interface_.addresses));
        heard.resize(CIO_XDP_ADDRESSES);
    }
    std::erase_if(now.own, is_in(heard));
    now.others.insert(now.others.begin(), now.own.begin(), now.own.end());
    if (!taking_ || heard != interface_.addresses || now.others != interface_.others) {
        if (auto taken = program_.take(ports_, heard, now.others, longest_frame_); !taken) return taken;
        interface_.addresses = std::move(heard);
        interface_.others = std::move(now.others);
        taking_ = true;
    }
    if (too_many) return std::unexpected(net::too_many());
    return {};
}

bool Port::look_at_peer(bool links_are_heard) {
    const bool is_veth = program_.native() && interface_.driver == "veth";
    std::expected<cio_xdp_answering, int> found = CIO_XDP_BY_TX;
    if (is_veth) found = taken_by_peer(interface_, links_are_heard);
    peer_unasked_ = found ? 0 : found.error();
    cio_xdp_answering how = found.value_or(CIO_XDP_SILENT);
    if (mode_.zero_copy && loses_what_is_sent_back(interface_)) how = CIO_XDP_SILENT;
    if (std::exchange(answering_, how) != how) program_.answer(how);
    return found.has_value();
}

std::string Port::why_silent() const {
    if (mode_.zero_copy && loses_what_is_sent_back(interface_))
        return fmt::format("its driver ({}) drops what a program sends back in zero-copy mode: take copy mode",
                           interface_.driver);
    if (peer_unasked_ != 0)
        return fmt::format("the kernel cannot be asked whether its peer takes packets from an XDP program: {}",
                           std::strerror(peer_unasked_));
    return "its peer takes no packets from an XDP program: attach one there (XDP_PASS does), or switch its GRO on";
}

void Port::wait(int milliseconds) {
    std::array<pollfd, kMostFds> polled{};
    for (std::size_t i = 0; i < queues_.size(); i++)
        polled[i] = {.fd = queues_[i]->fd(), .events = POLLIN, .revents = 0};
    poll(polled.data(), queues_.size(), milliseconds);
}

std::vector<int> Port::fds() const {
    std::vector<int> found;
    for (const auto& queue : queues_) found.push_back(queue->fd());
    return found;
}

std::uint64_t Port::posted() const {
    std::uint64_t sum = 0;
    for (const auto& queue : queues_) sum += queue->posted;
    return sum;
}

std::string Port::describe() const {
    return fmt::format("AF_XDP on {} ({}): {} queue{}, {} program{}, {}{}{}, frames of {} bytes in {} pages",
                       interface_.name, interface_.driver.empty() ? "no driver name" : interface_.driver,
                       queues_.size(), queues_.size() == 1 ? "" : "s", program_.native() ? "native" : "generic",
                       program_.shared() ? " in libxdp's dispatcher" : "", mode_.zero_copy ? "zero-copy" : "copy",
                       mode_.need_wakeup ? ", need-wakeup" : "",
                       mode_.multi_buffer ? ", multi-buffer" : ", single-buffer", kChunk,
                       slab_.region().in_huge_pages() ? "2 MiB" : "4 KiB");
}

std::uint64_t Port::dropped() const {
    std::uint64_t sum = 0;
    for (const auto& queue : queues_) sum += dropped_of(queue->statistics());
    return sum;
}

PortCounters Port::counters() const {
    PortCounters all = counters_;
    const ProgramCounters of_program = program_.counters();
    all.taken = of_program.taken;
    all.passed = of_program.passed;
    for (const auto& queue : queues_) {
        const xdp_statistics of_queue = queue->statistics();
        all.dropped += dropped_of(of_queue);
        all.invalid += of_queue.rx_invalid_descs + of_queue.tx_invalid_descs;
    }
    return all;
}

}  // namespace chainio::net
