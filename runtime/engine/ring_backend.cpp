#include <algorithm>
#include <bit>
#include <cerrno>
#include <vector>

#include "runtime/engine/backend.h"
#include "runtime/engine/pread.h"
#include "runtime/ring/shared.h"

namespace chainio::engine {
namespace {

class RingBackend final : public Backend {
  public:
    // With `own`, the ring has no other user.
    RingBackend(std::unique_ptr<ring::Shared> own, std::unique_ptr<ring::Seat> seat, const RingBackendOptions& options,
                umem::Slab& slab, metrics::EngineCounters& counters, metrics::Fallbacks& fallbacks)
        : own_(std::move(own)),
          seat_(std::move(seat)),
          slab_(slab),
          depth_(std::max(options.depth, 1u)),
          counters_(counters),
          fallbacks_(fallbacks),
          files_(options.file_slots),
          registered_begin_(slab.region().base()),
          registered_end_(registered_begin_) {
        register_rest();
    }

    void register_rest() override {
        const auto already = static_cast<std::size_t>(registered_end_ - registered_begin_);
        const umem::Region& region = slab_.region();
        const std::size_t registered = seat_->register_region(region.base(), region.size(), fallbacks_, already);
        slab_.prefer_first(registered);
        registered_end_ = registered_begin_ + registered;
    }

    std::string describe() const override {
        return std::string(by_turns() ? "the sockets' io_uring (" : "io_uring (") + ring().flags() + ", " +
               std::to_string((registered_end_ - registered_begin_) >> 10) + " KiB of registered buffers, " +
               (ring().has_file_table() ? "registered" : "unregistered") + " files" + spins() + ")";
    }
    unsigned capacity() const override { return depth_; }
    int poll_fd() override { return by_turns() ? -1 : ring().event_fd(); }
    bool by_turns() const override { return own_ == nullptr; }
    bool is_own() const override { return ring().is_own(); }
    int buffer_of(const std::uint8_t* data, std::size_t length) const override {
        return by_turns() && registered(data, length) ? static_cast<int>(seat_->buffer_slot()) : -1;
    }

    bool add_file(std::uint32_t slot, int fd) override {
        files_[slot] = {fd, seat_->register_file(slot, fd, fallbacks_)};
        return true;
    }
    void remove_file(std::uint32_t slot) override {
        if (files_[slot].registered) seat_->unregister_file(slot);
        files_[slot] = {};
    }

    void push(const ReadOp& op) override {
        io_uring_sqe* sqe = seat_->next_sqe(op.token);
        const File& file = files_[op.file];
        const int fd = file.registered ? static_cast<int>(seat_->file_slot(op.file)) : file.fd;
        if (registered(op.data, op.length)) {
            io_uring_prep_read_fixed(sqe, fd, op.data, op.length, op.offset, static_cast<int>(seat_->buffer_slot()));
            counters_.fixed_reads++;
        } else {
            io_uring_prep_read(sqe, fd, op.data, op.length, op.offset);
        }
        if (file.registered) sqe->flags |= IOSQE_FIXED_FILE;
        counters_.ring_reads++;
    }

    int enter(unsigned wait_for, std::span<ReadDone> done) override {
        if (!by_turns()) {
            if (const int turned = turn(wait_for); turned < 0) return turned;
        }
        // Who waits here, at the end or for a change of engines, does not wait for the turns of others.
        while (by_turns() && seat_->waiting() < wait_for) {
            if (const int turned = turn(1); turned < 0) return turned;
        }
        const auto count = std::min<std::size_t>(seat_->waiting(), done.size());
        for (std::size_t i = 0; i < count; i++) {
            const ring::Came came = seat_->take();
            done[i] = {static_cast<std::uint32_t>(came.data), came.result};
        }
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
    ring::Ring& ring() const { return seat_->shared().ring(); }
    // One that spins makes more system calls than one.
    int turn(unsigned wait_for) {
        ring::Shared& shared = seat_->shared();
        const std::uint64_t before = shared.calls();
        const int turned = shared.turn(wait_for);
        counters_.syscalls += shared.calls() - before;
        return turned;
    }
    std::string spins() const {
        const ring::Shared& shared = seat_->shared();
        if (shared.spin_us() == 0) return "";
        return ", looks " + std::to_string(shared.spin_us()) + " us for completions before it sleeps" +
               (shared.spins_where_it_pays() ? " where that pays" : "");
    }
    bool registered(const std::uint8_t* data, std::size_t length) const {
        return data >= registered_begin_ && data + length <= registered_end_;
    }

    std::unique_ptr<ring::Shared> own_;
    std::unique_ptr<ring::Seat> seat_;
    umem::Slab& slab_;
    unsigned depth_;
    metrics::EngineCounters& counters_;
    metrics::Fallbacks& fallbacks_;
    std::vector<File> files_;
    const std::uint8_t *registered_begin_, *registered_end_;
};

}  // namespace

std::unique_ptr<Backend> make_ring_backend(const RingBackendOptions& options, umem::Slab& slab,
                                           metrics::EngineCounters& counters, metrics::Fallbacks& fallbacks) {
    if (options.shared != nullptr) {
        if (auto seat = options.shared->sit(); seat != nullptr && options.file_slots <= seat->file_slots())
            return std::make_unique<RingBackend>(nullptr, std::move(seat), options, slab, counters, fallbacks);
        fallbacks.note("own-ring", "the io_uring that is shared has no room for this engine; it has one of its own");
    }
    ring::SharedOptions own;
    own.entries = std::bit_ceil(std::clamp(options.depth, 2u, 4096u));
    own.cq_entries = 2 * own.entries;
    own.file_slots = options.file_slots;
    own.spin_us = options.spin_us;
    auto ring = ring::Shared::create(own, fallbacks);
    if (!ring) {
        fallbacks.note("no-ring", ring.error() + "; blocks are read by pread, one at a time");
        return make_plain_backend(options.file_slots, counters);
    }
    auto seat = (*ring)->sit();
    return std::make_unique<RingBackend>(std::move(*ring), std::move(seat), options, slab, counters, fallbacks);
}

}  // namespace chainio::engine
