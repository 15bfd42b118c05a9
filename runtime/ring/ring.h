// An io_uring that closes itself: set up with the quickest flags that the kernel knows, each one it does not know
// noted.
#pragma once
#include <liburing.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "runtime/metrics/fallbacks.h"

namespace chainio::ring {

struct RingOptions {
    unsigned entries = 64;      // SQEs
    unsigned cq_entries = 128;  // CQEs, at least as many as reads may be under way
    unsigned file_slots = 64;   // of the sparse table of registered files; 0: no table
    unsigned buffer_slots = 0;  // of the sparse table of registered buffers; 0: one buffer, which is number 0
    // The most that setup may use, so that tests can take the place of an older kernel.
    // `loop` is the one set that a loop_step program can be attached to.
    enum class Level { newest, single_issuer, cooperative, plain, loop } level = Level::newest;
};

class Ring {
  public:
    static std::expected<Ring, std::string> create(const RingOptions& options, metrics::Fallbacks& fallbacks);
    Ring(Ring&&) noexcept = default;
    Ring& operator=(Ring&&) noexcept = default;

    // Registers as much of the memory's beginning as the kernel allows, as buffer `slot`; returns how many bytes. Those
    // that are `already` stay registered whatever comes, so that operations with them may be under way.
    std::size_t register_region(void* base, std::size_t bytes, metrics::Fallbacks& fallbacks, unsigned slot = 0,
                                std::size_t already = 0);
    // All of it as buffer 0, or nothing (noted), of a ring without a table of buffers.
    bool register_whole(void* base, std::size_t bytes, metrics::Fallbacks& fallbacks);
    // Of a ring with a table of buffers.
    void unregister_region(unsigned slot);
    // Makes the memory the ring's region, which its BPF program sees. 0 or an errno.
    int share_region(void* base, std::size_t bytes, metrics::Fallbacks& fallbacks);
    // Puts `fd` into a slot of the registered table; false (noted) when the kernel refuses, then reads use the
    // descriptor.
    bool register_file(unsigned slot, int fd, metrics::Fallbacks& fallbacks);
    void unregister_file(unsigned slot);
    // Binds the ring to the calling thread: only it may submit from now on, others get -EEXIST, as does any thread of a
    // child made by fork. 0 or -errno.
    int bind_to_thread();
    // What a child made by fork lets go of is its parent's still.
    bool is_own() const;

    // An eventfd that completions make readable, made when first asked for: a ring with DEFER_TASKRUN does not wake a
    // poll() of its own descriptor. -1 when the kernel refuses. drain_events() makes it wait for the next completion.
    int event_fd();
    void drain_events();

    // Whether the kernel has something to show that it shows only when it is asked.
    bool has_more() const {
        const unsigned flags = __atomic_load_n(state_->ring.sq.kflags, __ATOMIC_ACQUIRE);
        return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
    }

    io_uring* get() const { return &state_->ring; }
    unsigned entries() const { return state_->ring.sq.ring_entries; }
    bool has_file_table() const { return state_->file_table; }
    const std::string& flags() const { return state_->flags; }  // "SINGLE_ISSUER|DEFER_TASKRUN", for people

  private:
    int set_buffer(unsigned slot, void* base, std::size_t bytes);
    std::string why_unregistered(int result, unsigned slot) const;
    std::size_t largest_buffer(unsigned slot, void* base, std::size_t already, std::size_t too_much,
                               std::size_t for_rings);

    struct State {
        io_uring ring{};
        bool live = false, disabled = false, file_table = false, buffer_table = false;
        const pid_t process = getpid();
        std::uint32_t forks = 0;           // how many there had been when it was made
        std::vector<std::size_t> buffers;  // of a table of buffers: how many bytes of each are registered
        std::uint64_t thread = 0;          // whose it is
        std::string flags;
        int event_fd = -1;
        ~State() {
            if (live) io_uring_queue_exit(&ring);
            if (event_fd >= 0) close(event_fd);
        }
    };
    explicit Ring(std::unique_ptr<State> state) : state_(std::move(state)) {}
    std::unique_ptr<State> state_;  // liburing's structs hold pointers into themselves; they must not move
};

}  // namespace chainio::ring
