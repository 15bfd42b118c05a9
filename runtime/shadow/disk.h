// The ring that brings bytes into the page cache: the reads of chain walks (as their engine's back end) and fetches of
// exact ranges, whose bytes nobody looks at. Both go out with one system call.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/backend.h"
#include "runtime/metrics/fallbacks.h"
#include "runtime/ring/ring.h"
#include "runtime/shadow/first_touch.h"
#include "runtime/shadow/ranges.h"
#include "runtime/umem/zeroed.h"

namespace chainio::shadow {

// What happens to the reads of walks.
class ReadWatcher {
  public:
    virtual ~ReadWatcher() = default;
    // A read is handed to the device; returns the number that read_done() gets, at most 31 bits.
    virtual std::uint32_t read_begins(const engine::ReadOp& op) = 0;
    virtual void read_done(std::uint32_t number, std::int32_t result) = 0;
    // Whether somebody fetches these bytes just now.
    virtual bool read_on_its_way(const engine::ReadOp& op) const = 0;
    // A read found all of its bytes in memory.
    virtual void read_in_memory(const engine::ReadOp& op) = 0;
    // The kernel began to read what a read was to find in memory, and had it before it looked.
    virtual void read_at_once(const engine::ReadOp& op) = 0;
};

struct FetchDone {
    std::uint32_t number;
    std::int32_t result;  // bytes, or -errno
};

class Disk final : public engine::Backend {
  public:
    // `depth`: reads and fetches under way at most.
    Disk(unsigned depth, unsigned file_slots, ReadWatcher& watcher, metrics::Fallbacks& fallbacks);
    Disk(const Disk&) = delete;
    Disk& operator=(const Disk&) = delete;
    ~Disk() override;

    std::string describe() const override;
    unsigned capacity() const override { return depth_; }
    bool add_file(std::uint32_t slot, int fd) override;
    void remove_file(std::uint32_t slot) override { fds_[slot] = -1; }
    void push(const engine::ReadOp& op) override;
    int enter(unsigned wait_for, std::span<engine::ReadDone> done) override;
    std::int32_t read_now(const engine::ReadOp& op, bool only_cached) override;

    // Whether all of a range is in memory. Where the kernel does not say, it begins to read what is not. `counts`: what
    // cachestat says of the file is so (devices.h).
    bool in_memory(int fd, std::uint64_t offset, std::uint64_t length, bool counts);
    // Starts with the next enter(). At most kPiece bytes; false when `depth` are under way.
    // Its bytes go to `to` where that is given, which must stay until it is done; not without a ring.
    bool fetch(int fd, std::uint64_t offset, std::uint32_t length, std::uint32_t number, std::uint8_t* to = nullptr);
    bool reads_to_memory() const { return ring_.has_value(); }
    // Of the ring; empty: none. From then on nothing begins that needs one, what the kernel had not taken yet ends with
    // the error, and wait() sleeps without it. What the kernel had taken ends when it does.
    std::string failure() const;
    // Has the kernel begin to read a range, of which nobody hears when it has come. False, and noted: it does not.
    // `at_once`: of so many bytes it begins all, which are those that it reads ahead.
    bool begin_read(int fd, std::uint64_t offset, std::uint64_t length, std::uint64_t at_once);
    bool begins_reads() const { return can_begin_; }  // as far as is known
    // The same of a file's first bytes, in the kernel's own windows (windows.h) as far as they go. `all`: up to its
    // end.
    bool begin_file(int fd, std::uint64_t length, std::uint64_t at_once, bool all);
    // Pages of a file that were begun so; none: too few to look at.
    struct Filled {
        FirstTouch::How how = FirstTouch::How::in_windows;
        std::uint64_t first = 0, count = 0;
    };
    Filled filled() const { return filled_; }  // by the latest begin_file()
    // They have come, as far as is known: finds out what their first touch takes, if that is wanted.
    void look_at(int fd, const Filled& filled);
    FirstTouch& first_touch() { return first_touch_; }
    std::span<const FetchDone> fetched() const { return fetched_; }  // since clear_fetched()
    void clear_fetched() { fetched_.clear(); }

    // Sleeps until somebody wakes `word` (which must still be 1), a signal comes, or the time is over; with `for_reads`
    // also until a read is done. Returns at once when there is something to take already, but for a ring that has
    // failed.
    void wait(std::atomic<std::uint32_t>& word, std::uint64_t ns, bool for_reads);
    unsigned under_way() const { return under_way_; }
    std::uint64_t calls() const { return calls_; }
    // What this thread has had read from disks so far, in blocks of 512 bytes.
    static long blocks_read();

  private:
    static constexpr std::uint64_t kFetch = std::uint64_t{1} << 63, kWake = std::uint64_t{1} << 62;
    bool bind();
    void reap();
    void fail(int error);
    int enter_ring(unsigned wait_for);
    void take(std::uint64_t user_data, std::int32_t result);
    void arm_wake(std::atomic<std::uint32_t>& word);
    void read_plainly();
    io_uring_sqe* next_sqe();
    std::int32_t read_cached(int fd, const engine::ReadOp& op);
    bool came_from_device(std::uint64_t took_ns, std::uint32_t length);
    void touch(int fd, std::uint64_t page);
    std::optional<std::uint64_t> cached(int fd, std::uint64_t offset, std::uint64_t length);
    std::optional<std::uint64_t> read_byte(int fd, std::uint64_t page);
    FirstTouch::How begin_how(std::uint64_t pages);
    void note_filled(FirstTouch::How how, std::uint64_t pages);
    std::uint64_t grow(int fd, std::uint64_t pages, std::uint64_t most, bool all);
    std::optional<bool> ask_kernel(int fd, std::uint64_t offset, std::uint64_t length, bool counts);

    unsigned depth_;
    ReadWatcher& watcher_;
    metrics::Fallbacks& fallbacks_;
    std::optional<ring::Ring> ring_;
    std::vector<int> fds_;
    std::vector<FetchDone> fetched_;
    std::vector<engine::ReadDone> ready_;       // reads of walks that are done and not handed over
    std::vector<engine::ReadOp> plain_;         // without a ring: reads that wait for enter()
    umem::ZeroedVector<std::uint8_t> scratch_;  // all fetches write here; what they bring is in the page cache
    FirstTouch first_touch_;
    Filled filled_;
    unsigned under_way_ = 0, fetches_ = 0;
    std::uint64_t calls_ = 0;
    int error_ = 0;    // of the ring, negative
    long blocks_ = 0;  // blocks_read(), while knows_blocks_
    bool bound_ = false, wake_armed_ = false, can_wake_ = true, can_ask_ = true, can_begin_ = true,
         knows_blocks_ = false;
};

}  // namespace chainio::shadow
