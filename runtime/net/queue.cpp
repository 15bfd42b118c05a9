#include "runtime/net/queue.h"

#include <linux/if_xdp.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

// Linux 6.6 and later; the distribution's headers may be older.
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif

namespace chainio::net {
namespace {

std::vector<Mode> modes_to_try(const QueueOptions& options) {
    std::vector<Mode> modes;
    for (const bool zero_copy : {true, false}) {
        if (options.copy != Copy::automatic && zero_copy != (options.copy == Copy::zero_copy)) continue;
        for (const bool multi_buffer : {true, false}) {
            if (multi_buffer && !options.multi_buffer) continue;
            modes.push_back({zero_copy, options.need_wakeup, multi_buffer});
        }
    }
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
    if (socket_ != nullptr) xsk_socket__delete(socket_);
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
    const int failed = xsk_socket__create_shared(&queue->socket_, options.interface.c_str(), number, umem->umem_,
                                                 &queue->rx, &queue->tx, &queue->fill, &queue->completion, &config);
    if (failed != 0) {
        queue->socket_ = nullptr;
        return std::unexpected(-failed);
    }
    return queue;
}

xdp_statistics Queue::statistics() const {
    xdp_statistics found{};
    socklen_t size = sizeof found;
    getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &found, &size);
    return found;
}

}  // namespace chainio::net
