#include <algorithm>
#include <bit>
#include <cerrno>
#include <vector>

#include "runtime/engine/backend.h"
#include "runtime/engine/pread.h"
#include "runtime/ring/ring.h"

namespace chainio::engine {
namespace {

class RingBackend final : public Backend {
  public:
    RingBackend(ring::Ring ring, unsigned depth, unsigned file_slots, umem::Slab& slab,
                metrics::EngineCounters& counters, metrics::Fallbacks& fallbacks)
        : ring_(std::move(ring)), depth_(depth), counters_(counters), fallbacks_(fallbacks), files_(file_slots) {
        std::uint8_t* base = slab.region().base();
        const std::size_t registered = ring_.register_region(base, slab.region().size(), fallbacks);
        slab.prefer_first(registered);
        registered_begin_ = base;
        registered_end_ = base + registered;
    }

    std::string describe() const override {
        return "io_uring (" + ring_.flags() + ", " + std::to_string((registered_end_ - registered_begin_) >> 10) +
               " KiB of registered buffers, " + (ring_.has_file_table() ? "registered" : "unregistered") + " files)";
    }
    unsigned capacity() const override { return depth_; }
    int poll_fd() override { return ring_.event_fd(); }

    bool add_file(std::uint32_t slot, int fd) override {
        files_[slot] = {fd, ring_.register_file(slot, fd, fallbacks_)};
        return true;
    }
    void remove_file(std::uint32_t slot) override {
        if (files_[slot].registered) ring_.unregister_file(slot);
        files_[slot] = {};
    }

    void push(const ReadOp& op) override {
        io_uring_sqe* sqe = io_uring_get_sqe(ring_.get());
        const File& file = files_[op.file];
        const int fd = file.registered ? static_cast<int>(op.file) : file.fd;
        if (op.data >= registered_begin_ && op.data + op.length <= registered_end_) {
            io_uring_prep_read_fixed(sqe, fd, op.data, op.length, op.offset, 0);
            counters_.fixed_reads++;
        } else {
            io_uring_prep_read(sqe, fd, op.data, op.length, op.offset);
        }
        if (file.registered) sqe->flags |= IOSQE_FIXED_FILE;
        sqe->user_data = op.token;
        counters_.ring_reads++;
    }

    int enter(unsigned wait_for, std::span<ReadDone> done) override {
        const int bound = ring_.bind_to_thread();
        if (bound < 0) return bound;
        io_uring* ring = ring_.get();
        ring_.drain_events();
        counters_.syscalls++;
        const int result =
            wait_for == 0 ? io_uring_submit_and_get_events(ring) : io_uring_submit_and_wait(ring, wait_for);
        // A signal, or a full completion queue, only means that there is something to reap or to try again; a kernel
        // that has no memory for the requests says so by EAGAIN too, which is not tried for ever.
        if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY) return result;
        refused_in_a_row_ = result == -EAGAIN || result == -EBUSY ? refused_in_a_row_ + 1 : 0;
        if (refused_in_a_row_ > kMostRefusals) return result;
        unsigned head = 0, count = 0;
        io_uring_cqe* cqe = nullptr;
        io_uring_for_each_cqe(ring, head, cqe) {
            if (count == done.size()) break;
            done[count++] = {static_cast<std::uint32_t>(cqe->user_data), cqe->res};
        }
        io_uring_cq_advance(ring, count);
        return static_cast<int>(count);
    }

    std::int32_t read_now(const ReadOp& op, bool only_cached) override {
        return pread_now(files_[op.file].fd, op, only_cached, counters_);
    }

  private:
    struct File {
        int fd = -1;
        bool registered = false;
    };
    static constexpr unsigned kMostRefusals = 100'000;
    ring::Ring ring_;
    unsigned depth_;
    unsigned refused_in_a_row_ = 0;
    metrics::EngineCounters& counters_;
    metrics::Fallbacks& fallbacks_;
    std::vector<File> files_;
    const std::uint8_t* registered_begin_ = nullptr;
    const std::uint8_t* registered_end_ = nullptr;
};

}  // namespace

std::unique_ptr<Backend> make_ring_backend(const RingBackendOptions& options, umem::Slab& slab,
                                           metrics::EngineCounters& counters, metrics::Fallbacks& fallbacks) {
    ring::RingOptions ring_options;
    ring_options.entries = std::bit_ceil(std::clamp(options.depth, 2u, 4096u));
    ring_options.cq_entries = 2 * ring_options.entries;
    ring_options.file_slots = options.file_slots;
    auto ring = ring::Ring::create(ring_options, fallbacks);
    if (!ring) {
        fallbacks.note("no-ring", ring.error() + "; blocks are read by pread, one at a time");
        return make_plain_backend(options.file_slots, counters);
    }
    const unsigned depth = std::min(std::max(options.depth, 1u), ring_options.entries);
    return std::make_unique<RingBackend>(std::move(*ring), depth, options.file_slots, slab, counters, fallbacks);
}

}  // namespace chainio::engine
