// One queue of an interface by AF_XDP: its four rings over the frames of a shared region, of two sockets. In copy mode
// the kernel receives on the processor of who has sent, and what it writes to a socket then would lie beside what
// sending reads of it for each packet.
#pragma once
#include <linux/if_xdp.h>
#include <xdp/xsk.h>

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "runtime/umem/region.h"

// Linux 6.6 and later; the distribution's headers may be older.
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

namespace chainio::net {

inline constexpr unsigned kMostQueues = 64;    // of an interface, that can be served
inline constexpr std::uint32_t kChunk = 4096;  // a frame as the kernel sees it

enum class Copy { automatic, copy, zero_copy };

struct QueueOptions {
    std::string interface;
    std::uint32_t entries = 1024;  // of each ring, a power of two
    Copy copy = Copy::automatic;
    bool need_wakeup = true;
    bool multi_buffer = true;
    bool long_packets = false;  // packets of the interface may be longer than a frame: multi-buffer before zero-copy
};

// What a socket has in fact.
struct Mode {
    bool zero_copy = false, need_wakeup = false, multi_buffer = false;
};

// The region as UMEM. It holds the first queue's socket, so it is made together with it.
class Umem {
  public:
    ~Umem();
    Umem() = default;
    Umem(const Umem&) = delete;
    Umem& operator=(const Umem&) = delete;

  private:
    friend class Queue;
    xsk_umem* umem_ = nullptr;
    xsk_ring_prod fill_{};
    xsk_ring_cons completion_{};
};

class Queue {
  public:
    // Number 0 settles the mode (best first, as far as the options allow); the others take what it got. An errno value
    // when the kernel refuses each.
    static std::expected<std::unique_ptr<Queue>, int> create(std::shared_ptr<Umem>& umem, const umem::Region& region,
                                                             const QueueOptions& options, unsigned number, Mode& mode);
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue();

    int fd() const { return xsk_socket__fd(receiver_); }  // readable once something came
    int send_fd() const { return sender_; }
    // Whether frames of the transmit ring wait for a kick.
    bool unsent() const { return fetched() != *tx.producer; }
    // How far the kernel has come in that ring.
    std::uint32_t fetched() const { return __atomic_load_n(tx.consumer, __ATOMIC_ACQUIRE); }
    xdp_statistics statistics() const;

    xsk_ring_prod fill{}, tx{};
    xsk_ring_cons completion{}, rx{};
    std::uint32_t posted = 0;  // frames that the kernel has, to receive into

  private:
    Queue() = default;
    static std::expected<std::unique_ptr<Queue>, int> try_create(std::shared_ptr<Umem>& umem,
                                                                 const umem::Region& region,
                                                                 const QueueOptions& options, unsigned number,
                                                                 const Mode& mode);
    int open_sender(const QueueOptions& options, unsigned number);  // 0 or an errno value
    std::shared_ptr<Umem> umem_;
    xsk_socket* receiver_ = nullptr;
    int sender_ = -1;
    void* sent_ = nullptr;  // the ring `tx`
    std::size_t sent_bytes_ = 0;
};

}  // namespace chainio::net
