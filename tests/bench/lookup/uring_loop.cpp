// The best that we can write by hand: one thread, registered file, buffers and ring, completions reaped in batches, and
// one io_uring_enter for all that became ready. Deferred task work keeps completions from interrupting the loop.
#include <liburing.h>

#include <cstring>

#include "tests/bench/lookup/block_cache.h"
#include "tests/bench/lookup/contender.h"
#include "tests/bench/lookup/os.h"

namespace chainio::bench {
namespace {

class Ring {
  public:
    static std::expected<std::unique_ptr<Ring>, std::string> make(unsigned depth, int fd,
                                                                  std::span<std::uint8_t> buffers) {
        auto ring = std::unique_ptr<Ring>(new Ring);
        const unsigned entries = depth < 8 ? 8 : depth;
        const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
        int error = io_uring_queue_init(entries, &ring->ring_, flags | IORING_SETUP_NO_SQARRAY);
        if (error == -EINVAL) error = io_uring_queue_init(entries, &ring->ring_, flags);
        if (error < 0) return std::unexpected(std::string("io_uring_queue_init: ") + std::strerror(-error));
        ring->open_ = true;
        const iovec vector{buffers.data(), buffers.size()};
        error = io_uring_register_files(&ring->ring_, &fd, 1);
        if (error == 0) error = io_uring_register_buffers(&ring->ring_, &vector, 1);
        if (error < 0) return std::unexpected(std::string("registering with io_uring: ") + std::strerror(-error));
        io_uring_register_ring_fd(&ring->ring_);  // saves a lookup of the ring's descriptor a call; not vital
        return ring;
    }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() {
        if (open_) io_uring_queue_exit(&ring_);
    }
    io_uring* get() { return &ring_; }

  private:
    Ring() = default;
    io_uring ring_{};
    bool open_ = false;
};

constexpr unsigned before_root = ~0U;  // one more is level 0

struct Slot {
    std::size_t key = 0;
    std::uint64_t begin = 0;
    std::uint32_t page = 0;
    unsigned level = before_root;
    std::uint8_t* buffer = nullptr;
};

class Loop {
  public:
    Loop(const Job& job, Ring& ring, std::span<std::uint8_t> buffers)
        : job_(job), ring_(ring), cache_(job), slots_(job.depth) {
        for (std::size_t i = 0; i < slots_.size(); i++) slots_[i].buffer = buffers.data() + i * job.page_size;
        outcome_.value_hash.resize(job.keys.size());
        outcome_.latency_ns.resize(job.keys.size());
    }

    Result run() {
        job_.on_begin();
        const std::uint64_t begin = now_ns();
        for (Slot& slot : slots_) {
            if (take_key(slot, begin) && !follow(slot, {Descent::Kind::child, job_.root}))
                return std::unexpected("malformed page");
        }
        while (in_flight_ > 0) {
            const int error = io_uring_submit_and_wait(ring_.get(), 1);
            if (error < 0) return std::unexpected(std::string("io_uring_submit_and_wait: ") + std::strerror(-error));
            if (!reap()) return std::unexpected("a read of " + job_.db + " failed or a page is malformed");
        }
        outcome_.seconds = static_cast<double>(now_ns() - begin) / 1e9;
        job_.on_end();
        return std::move(outcome_);
    }

  private:
    bool reap() {
        io_uring_cqe* cqe = nullptr;
        unsigned head = 0, seen = 0;
        bool good = true;
        io_uring_for_each_cqe(ring_.get(), head, cqe) {
            seen++;
            in_flight_--;
            Slot& slot = slots_[cqe->user_data];
            good = good && cqe->res == static_cast<int>(job_.page_size);
            if (good) good = block_came(slot);
        }
        io_uring_cq_advance(ring_.get(), seen);
        return good;
    }

    bool block_came(Slot& slot) {
        const std::span<const std::uint8_t> block(slot.buffer, job_.page_size);
        cache_.keep(slot.page, slot.level, block);
        return follow(slot, job_.descend(block, slot.page, job_.keys[slot.key]));
    }

    // Goes on with the slot's lookup, through cached blocks at once, and then with the next keys until it waits for a
    // read.
    bool follow(Slot& slot, Descent at) {
        while (true) {
            while (at.kind == Descent::Kind::child) {
                slot.page = at.page;
                slot.level++;
                const auto block = cache_.find(slot.page, slot.level);
                if (block.empty()) {
                    read(slot);
                    return true;
                }
                at = job_.descend(block, slot.page, job_.keys[slot.key]);
            }
            if (at.kind == Descent::Kind::malformed) return false;
            if (at.kind == Descent::Kind::found) outcome_.value_hash[slot.key] = hash_value(at.value);
            const std::uint64_t end = now_ns();
            outcome_.latency_ns[slot.key] = static_cast<std::uint32_t>(end - slot.begin);
            if (!take_key(slot, end)) return true;
            at = {Descent::Kind::child, job_.root};
        }
    }

    bool take_key(Slot& slot, std::uint64_t now) {
        if (next_key_ == job_.keys.size()) return false;
        slot.key = next_key_++;
        slot.begin = now;
        slot.level = before_root;
        return true;
    }

    void read(Slot& slot) {
        io_uring_sqe* sqe = io_uring_get_sqe(ring_.get());  // never null: at most one SQE a slot
        const std::uint64_t offset = std::uint64_t{slot.page - 1} * job_.page_size;
        io_uring_prep_read_fixed(sqe, 0, slot.buffer, job_.page_size, offset, 0);
        sqe->flags |= IOSQE_FIXED_FILE;
        sqe->user_data = static_cast<std::uint64_t>(&slot - slots_.data());
        in_flight_++;
        outcome_.reads++;
    }

    const Job& job_;
    Ring& ring_;
    BlockCache cache_;
    std::vector<Slot> slots_;
    std::size_t next_key_ = 0, in_flight_ = 0;
    Outcome outcome_;
};

}  // namespace

Result run_uring(const Job& job) {
    auto file = File::open_direct(job.db);
    if (!file) return std::unexpected(file.error());
    const AlignedBlock buffers(std::size_t{job.depth} * job.page_size);
    auto ring = Ring::make(job.depth, file->fd(), buffers.bytes());
    if (!ring) return std::unexpected(ring.error());
    return Loop(job, **ring, buffers.bytes()).run();
}

}  // namespace chainio::bench
