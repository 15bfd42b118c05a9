#include "runtime/net/queue.h"

#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "runtime/net/interface_names.h"

// Linux 6.6 and later; the distribution's headers may be older.
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif

namespace chainio::net {
namespace {

std::vector<Mode> modes_to_try(const QueueOptions& options) {
    const bool wakeup = options.need_wakeup;
    std::vector<Mode> modes = {
        {true, wakeup, true}, {true, wakeup, false}, {false, wakeup, true}, {false, wakeup, false}};
    if (options.long_packets) std::swap(modes[1], modes[2]);
    std::erase_if(modes, [&](const Mode& mode) {
        const bool other = options.copy != Copy::automatic && mode.zero_copy != (options.copy == Copy::zero_copy);
        return other || (mode.multi_buffer && !options.multi_buffer);
    });
    return modes;
}

std::uint16_t bind_flags(const Mode& mode) {
    int flags = mode.zero_copy ? XDP_ZEROCOPY : XDP_COPY;
    if (mode.need_wakeup) flags |= XDP_USE_NEED_WAKEUP;
    if (mode.multi_buffer) flags |= XDP_USE_SG;
    return static_cast<std::uint16_t>(flags);
}

}  // namespace

Umem::~Umem() {
    if (umem_ != nullptr) xsk_umem__delete(umem_);
}

Queue::~Queue() {
    if (sent_ != nullptr) munmap(sent_, sent_bytes_);
    if (sender_ >= 0) close(sender_);
    if (receiver_ != nullptr) xsk_socket__delete(receiver_);
}

std::expected<std::unique_ptr<Queue>, int> Queue::create(std::shared_ptr<Umem>& umem, const umem::Region& region,
                                                         const QueueOptions& options, unsigned number, Mode& mode) {
    if (number != 0) return try_create(umem, region, options, number, mode);
    int failed = EINVAL;
    for (const Mode& wanted : modes_to_try(options)) {
        // A refused bind leaves its UMEM bound to what was asked for, so each try has its own.
        umem = std::make_shared<Umem>();
        auto queue = try_create(umem, region, options, number, wanted);
        if (!queue) {
            failed = queue.error();
            if (failed == EPERM || failed == ENETDOWN || failed == ENOBUFS || failed == EBUSY) break;
            continue;
        }
        mode = wanted;
        xdp_options obtained{};
        socklen_t size = sizeof obtained;
        if (getsockopt((*queue)->fd(), SOL_XDP, XDP_OPTIONS, &obtained, &size) == 0)
            mode.zero_copy = (obtained.flags & XDP_OPTIONS_ZEROCOPY) != 0;
        return queue;
    }
    return std::unexpected(failed);
}

std::expected<std::unique_ptr<Queue>, int> Queue::try_create(std::shared_ptr<Umem>& umem, const umem::Region& region,
                                                             const QueueOptions& options, unsigned number,
                                                             const Mode& mode) {
    std::unique_ptr<Queue> queue(new Queue);
    queue->umem_ = umem;
    if (umem->umem_ == nullptr) {
        const xsk_umem_config config{.fill_size = options.entries,
                                     .comp_size = options.entries,
                                     .frame_size = kChunk,
                                     .frame_headroom = 0,
                                     .flags = 0};
        const int failed =
            xsk_umem__create(&umem->umem_, region.base(), region.size(), &umem->fill_, &umem->completion_, &config);
        if (failed != 0) return std::unexpected(-failed);
    }
    xsk_socket_config config{};
    config.rx_size = config.tx_size = options.entries;
    config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
    // Further sockets of a UMEM take the mode of the first; the kernel wants no flags of their own.
    config.bind_flags = bind_flags(mode);
    const int failed = xsk_socket__create_shared(&queue->receiver_, options.interface.c_str(), number, umem->umem_,
                                                 &queue->rx, nullptr, &queue->fill, &queue->completion, &config);
    if (failed != 0) {
        queue->receiver_ = nullptr;
        return std::unexpected(-failed);
    }
    if (const int error = queue->open_sender(options, number); error != 0) return std::unexpected(error);
    return queue;
}

// libxdp has further sockets share the UMEM's first one, and so the rings of that one's queue; this one shares those of
// its own.
int Queue::open_sender(const QueueOptions& options, unsigned number) {
    sender_ = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    xdp_mmap_offsets offsets{};
    socklen_t size = sizeof offsets;
    if (sender_ < 0 || setsockopt(sender_, SOL_XDP, XDP_TX_RING, &options.entries, sizeof options.entries) != 0 ||
        getsockopt(sender_, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size) != 0)
        return errno;
    sent_bytes_ = offsets.tx.desc + std::size_t{options.entries} * sizeof(xdp_desc);
    void* memory = mmap(nullptr, sent_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, sender_,
                        static_cast<off_t>(XDP_PGOFF_TX_RING));
    if (memory == MAP_FAILED) return errno;
    sent_ = memory;
    auto* base = static_cast<std::uint8_t*>(memory);
    tx.mask = options.entries - 1;
    tx.size = tx.cached_cons = options.entries;  // what libxdp counts is where there is no room any more
    tx.producer = reinterpret_cast<std::uint32_t*>(base + offsets.tx.producer);
    tx.consumer = reinterpret_cast<std::uint32_t*>(base + offsets.tx.consumer);
    tx.flags = reinterpret_cast<std::uint32_t*>(base + offsets.tx.flags);
    tx.ring = base + offsets.tx.desc;
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_flags = XDP_SHARED_UMEM;
    address.sxdp_ifindex = if_nametoindex(options.interface.c_str());
    address.sxdp_queue_id = number;
    address.sxdp_shared_umem_fd = static_cast<std::uint32_t>(fd());
    return bind(sender_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

xdp_statistics Queue::statistics() const {
    xdp_statistics found{}, sending{};
    socklen_t size = sizeof found, same = sizeof sending;
    getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &found, &size);
    getsockopt(sender_, SOL_XDP, XDP_STATISTICS, &sending, &same);
    found.tx_invalid_descs = sending.tx_invalid_descs;
    return found;
}

}  // namespace chainio::net
