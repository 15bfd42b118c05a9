#include "runtime/ring/shared.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>

namespace chainio::ring {
namespace {

// Tells the processor that it is waited for somebody else.
inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

}  // namespace

std::expected<std::unique_ptr<Shared>, std::string> Shared::create(const SharedOptions& options,
                                                                   metrics::Fallbacks& fallbacks) {
    RingOptions wanted;
    wanted.entries = options.entries;
    wanted.cq_entries = options.cq_entries;
    wanted.file_slots = options.file_slots * options.seats;
    wanted.buffer_slots = options.seats > 1 ? options.seats : 0;
    auto ring = Ring::create(wanted, fallbacks);
    if (!ring) return std::unexpected(ring.error());
    return std::unique_ptr<Shared>(new Shared(std::move(*ring), options));
}

std::unique_ptr<Seat> Shared::sit() {
    for (unsigned number = 0; number < options_.seats; number++) {
        Place& place = places_[number];
        if (place.seat != nullptr) continue;
        std::unique_ptr<Seat> seat(new Seat(*this, number, ++place.generation));
        place.seat = seat.get();
        return seat;
    }
    return nullptr;
}

// 0 also where the kernel took nothing: -errno is that the ring is not this thread's.
int Shared::submit() {
    if (const int bound = ring_.bind_to_thread(); bound < 0) return bound;
    io_uring_submit(ring_.get());
    if (io_uring_sq_ready(ring_.get()) == 0) submissions_++;
    return 0;
}

bool Shared::submit_all() {
    for (unsigned refusals = 0; failed_ == 0; refusals++) {
        failed_ = submit();
        if (failed_ != 0) return false;
        if (io_uring_sq_ready(ring_.get()) == 0) return true;
        hand_out();  // a full completion queue may be why
        if (refusals > kMostRefusals) failed_ = -EAGAIN;
    }
    return false;
}

bool Shared::has_room(unsigned operations) {
    return failed_ == 0 && (io_uring_sq_space_left(ring_.get()) >= operations || submit_all());
}

// Where it is to look before it sleeps: submits what was started, and says whether enough came before the time was
// over. What is left of `timeout_ms` otherwise is in it.
bool Shared::look(unsigned wait_for, int& timeout_ms) {
    if (options_.spin_us == 0) return false;
    if (options_.spin_where_it_pays && !spinning_.begins()) return false;
    calls_++;
    if (io_uring_submit_and_get_events(ring_.get()) < 0) return false;
    if (io_uring_cq_ready(ring_.get()) >= wait_for) return true;  // which is no sign that looking pays
    const bool has_come = spin(wait_for, timeout_ms);
    if (has_come) spinning_.found();
    spinning_.ended();
    return has_come;
}

// A processor that has gone to sleep takes longer to wake up than many a read takes. Once the time is over it looks
// once more: it may have been over because this thread was stopped, while something came.
bool Shared::spin(unsigned wait_for, int& timeout_ms) {
    using std::chrono::milliseconds;
    io_uring* ring = ring_.get();
    const auto begin = std::chrono::steady_clock::now();
    auto now = begin;
    std::chrono::microseconds most(options_.spin_us);
    if (timeout_ms >= 0) most = std::min<std::chrono::microseconds>(most, milliseconds(timeout_ms));
    for (bool over = false; io_uring_cq_ready(ring) < wait_for;) {
        if (beside_ != nullptr && beside_->any_came()) return true;
        if (ring_.has_more()) {
            calls_++;
            if (io_uring_get_events(ring) < 0) return false;
        } else if (over) {
            const auto gone = std::chrono::duration_cast<milliseconds>(now - begin).count();
            if (timeout_ms >= 0) timeout_ms -= static_cast<int>(std::min<std::int64_t>(gone, timeout_ms));
            return false;
        } else {
            pause();
            now = std::chrono::steady_clock::now();
            over = now - begin >= most;
        }
    }
    return true;
}

// The kernel hands the disk all reads of a submission together from its third operation on (IO_PLUG_THRESHOLD), and
// each by itself before that. To tell a disk of a virtual machine takes longer than an operation that does nothing.
void Shared::pair_reads() {
    io_uring* ring = ring_.get();
    if (io_uring_sq_ready(ring) != 2 || io_uring_sq_space_left(ring) == 0) return;
    for (unsigned i = 0; i < 2; i++) {
        const io_uring_sqe& sqe = ring->sq.sqes[(ring->sq.sqe_head + i) & ring->sq.ring_mask];
        if (sqe.opcode != IORING_OP_READ && sqe.opcode != IORING_OP_READ_FIXED) return;
    }
    io_uring_sqe* third = io_uring_get_sqe(ring);
    io_uring_prep_nop(third);
    io_uring_sqe_set_flags(third, IOSQE_CQE_SKIP_SUCCESS);
    io_uring_sqe_set_data64(third, std::uint64_t{kMostSeats} << Seat::kSeatShift);
}

int Shared::enter(unsigned wait_for, int timeout_ms) {
    io_uring* ring = ring_.get();
    calls_++;
    if (wait_for == 0) return io_uring_submit_and_get_events(ring);
    if (timeout_ms < 0) return io_uring_submit_and_wait(ring, wait_for);
    __kernel_timespec limit{.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1'000'000LL};
    io_uring_cqe* first = nullptr;
    return io_uring_submit_and_wait_timeout(ring, &first, wait_for, &limit, nullptr);
}

int Shared::turn(unsigned wait_for, int timeout_ms) {
    if (failed_ != 0) return failed_;
    if (const int bound = ring_.bind_to_thread(); bound < 0) return bound;
    ring_.drain_events();
    io_uring* ring = ring_.get();
    pair_reads();
    const bool waits = wait_for != 0 && timeout_ms != 0;
    const bool has_come = waits && look(wait_for, timeout_ms);
    const bool sleeps = waits && !has_come && (beside_ == nullptr || beside_->fall_asleep());
    const int result = has_come ? 0 : enter(sleeps ? wait_for : 0, timeout_ms);
    if (io_uring_sq_ready(ring) == 0) submissions_++;
    hand_out();
    // A signal, or a full completion queue, only means that there is something to reap or to try again; a kernel that
    // has no memory for the requests says so by EAGAIN too, which is not tried for ever.
    const bool refused = result == -EAGAIN || result == -EBUSY;
    refused_in_a_row_ = refused ? refused_in_a_row_ + 1 : 0;
    if (refused && refused_in_a_row_ > kMostRefusals) return result;
    return result >= 0 || refused || result == -EINTR || result == -ETIME ? 0 : result;
}

void Shared::hand_out() {
    unsigned head = 0, count = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(ring_.get(), head, cqe) {
        count++;
        const std::uint64_t number = cqe->user_data >> Seat::kSeatShift;
        Seat* seat = number < kMostSeats ? places_[number].seat : nullptr;
        if (seat == nullptr || ((cqe->user_data ^ seat->tag_) & ~Seat::kDataMask) != 0) continue;
        seat->add({cqe->user_data & Seat::kDataMask, cqe->res, cqe->flags});
    }
    io_uring_cq_advance(ring_.get(), count);
}

Seat::Seat(Shared& shared, unsigned number, std::uint8_t generation)
    : shared_(shared),
      number_(number),
      tag_(std::uint64_t{number} << kSeatShift | std::uint64_t{generation} << kGenerationShift),
      came_(kFirstRoom) {}

Seat::~Seat() {
    shared_.ring_.unregister_region(number_);
    shared_.places_[number_].seat = nullptr;
}

io_uring_sqe* Seat::next_sqe(std::uint64_t data) {
    io_uring_sqe* sqe = shared_.has_room(1) ? io_uring_get_sqe(shared_.ring_.get()) : &shared_.nowhere_;
    io_uring_sqe_set_data64(sqe, user_data(data));
    return sqe;
}

// What has come since the last turn is in the ring still. What the kernel keeps beside a full one shows with the next.
bool Seat::has_for(std::uint64_t data) const {
    for (std::size_t i = head_; i != tail_; i++)
        if (came_[i & (came_.size() - 1)].data == (data & kDataMask)) return true;
    const io_uring* ring = shared_.ring_.get();
    if (io_uring_cq_has_overflow(ring)) return true;
    unsigned head = 0;
    const io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(ring, head, cqe) if (cqe->user_data == user_data(data)) return true;
    return false;
}

void Seat::add(const Came& came) {
    if (waiting() == came_.size()) {
        std::vector<Came> more(2 * came_.size());
        for (std::size_t i = 0; i < came_.size(); i++) more[i] = came_[(head_ + i) & (came_.size() - 1)];
        tail_ = came_.size();
        head_ = 0;
        came_.swap(more);
    }
    came_[tail_++ & (came_.size() - 1)] = came;
}

}  // namespace chainio::ring
