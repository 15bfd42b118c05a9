// One io_uring for several users on one thread. Each has a seat: its operations carry the seat's number, what comes
// back waits there until it is taken, and it has its own stretch of the tables of registered files and buffers. One
// system call a turn submits what all of them have started and takes what has come for any.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "runtime/ring/ring.h"
#include "runtime/ring/spinning.h"

namespace chainio::ring {

struct Came {
    std::uint64_t data = 0;  // as it was given to next_sqe()
    std::int32_t result = 0;
    std::uint32_t flags = 0;
};

struct SharedOptions {
    unsigned entries = 64, cq_entries = 128;
    unsigned seats = 1;       // at most kMostSeats
    unsigned file_slots = 0;  // for each seat, which has room for one region of memory too
    unsigned spin_us = 0;     // a turn that waits looks that long for completions before it sleeps
    bool spin_where_it_pays = false;
};

class Seat;

// Whose work comes by memory, of which no completion tells.
class Beside {
  public:
    virtual ~Beside() = default;
    // Whether some has come.
    virtual bool any_came() = 0;
    // From now on a completion tells of what comes. False: some has come already.
    virtual bool fall_asleep() = 0;
};

class Shared {
  public:
    static constexpr unsigned kMostSeats = 8;
    static std::expected<std::unique_ptr<Shared>, std::string> create(const SharedOptions& options,
                                                                      metrics::Fallbacks& fallbacks);
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    // Null when all seats are taken. The ring outlives its seats.
    std::unique_ptr<Seat> sit();
    // Submits what was started, waits for `wait_for` completions (0: does not wait) or until `timeout_ms` are over (-1:
    // never), and hands out what has come to the seats. 0 or -errno.
    int turn(unsigned wait_for, int timeout_ms = -1);
    // Who is asked while a turn looks, and before it sleeps; null: nobody. It sleeps for nobody who has something to
    // do.
    void set_beside(Beside* beside) { beside_ = beside; }
    // How often the kernel has taken all that was started: what an operation points to is its user's again from then
    // on.
    std::uint64_t submissions() const { return submissions_; }
    // Has the kernel take all that was started. One that has no memory is asked again, not for ever: false, as where
    // the ring is another thread's, and the next turn() says it. What is started from then on goes nowhere.
    bool submit_all();
    // Whether that many operations more are taken together.
    bool has_room(unsigned operations);
    // 0 or -errno: the ring belongs to the calling thread from now on. turn() does so as well.
    int bind() { return ring_.bind_to_thread(); }
    unsigned spin_us() const { return options_.spin_us; }
    bool spins_where_it_pays() const { return options_.spin_where_it_pays; }
    std::uint64_t calls() const { return calls_; }  // io_uring_enter of turns so far
    Ring& ring() { return ring_; }
    const Ring& ring() const { return ring_; }

  private:
    friend class Seat;
    Shared(Ring ring, const SharedOptions& options) : ring_(std::move(ring)), options_(options) {}
    int submit();
    void hand_out();
    void pair_reads();
    bool look(unsigned wait_for, int& timeout_ms);
    bool spin(unsigned wait_for, int& timeout_ms);
    int enter(unsigned wait_for, int timeout_ms);

    struct Place {
        Seat* seat = nullptr;
        std::uint8_t generation = 0;  // operations of who sat there before are nobody's
    };
    static constexpr unsigned kMostRefusals = 100'000;
    Ring ring_;
    SharedOptions options_;
    std::array<Place, kMostSeats> places_{};
    std::uint64_t submissions_ = 0, calls_ = 0;
    Spinning spinning_;
    Beside* beside_ = nullptr;
    unsigned refused_in_a_row_ = 0;
    int failed_ = 0;          // -errno for good
    io_uring_sqe nowhere_{};  // what is started then
};

class Seat {
  public:
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    // `data` (of 48 bits) comes back with the operation's completions. Submits what there is when the queue is full.
    io_uring_sqe* next_sqe(std::uint64_t data);
    // By which the kernel knows an operation, as for cancelling it.
    std::uint64_t user_data(std::uint64_t data) const { return tag_ | (data & kDataMask); }

    unsigned waiting() const { return static_cast<unsigned>(tail_ - head_); }
    Came take() { return came_[head_++ & (came_.size() - 1)]; }
    // Whether something has come of an operation that was not taken yet, or may have.
    bool has_for(std::uint64_t data) const;

    // As those of Ring, in the seat's own stretch; `slot` is then file_slot(slot).
    bool register_file(unsigned slot, int fd, metrics::Fallbacks& fallbacks) {
        return shared_.ring_.register_file(file_slot(slot), fd, fallbacks);
    }
    void unregister_file(unsigned slot) { shared_.ring_.unregister_file(file_slot(slot)); }
    unsigned file_slots() const { return shared_.options_.file_slots; }
    unsigned file_slot(unsigned slot) const { return number_ * shared_.options_.file_slots + slot; }
    std::size_t register_region(void* base, std::size_t bytes, metrics::Fallbacks& fallbacks, std::size_t already = 0) {
        return shared_.ring_.register_region(base, bytes, fallbacks, number_, already);
    }
    unsigned buffer_slot() const { return number_; }
    Shared& shared() const { return shared_; }

  private:
    friend class Shared;
    static constexpr unsigned kSeatShift = 56, kGenerationShift = 48;
    static constexpr std::uint64_t kDataMask = (std::uint64_t{1} << kGenerationShift) - 1;
    static constexpr std::size_t kFirstRoom = 1024;  // completions; more are rare
    Seat(Shared& shared, unsigned number, std::uint8_t generation);
    void add(const Came& came);

    Shared& shared_;
    unsigned number_;
    std::uint64_t tag_;
    std::vector<Came> came_;  // a power of two of places, from head_ to tail_
    std::size_t head_ = 0, tail_ = 0;
};

}  // namespace chainio::ring
