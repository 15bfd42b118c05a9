#include "runtime/shadow/disk.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/resident.h"
#include "runtime/shadow/windows.h"

namespace chainio::shadow {
namespace {

// Not in the headers of every system that we build on; the number is the same on all architectures.
constexpr long kCachestat = 451;
struct CachestatRange {
    std::uint64_t offset, length;
};
struct Cachestat {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

constexpr std::uint64_t kLeastLookedAt = 256;  // pages of a file of which it is looked at what their first touch takes
constexpr std::uint64_t kLongestBlindWait = 100'000;  // ns, while reads are under way and events wake nobody

// What the next call may well do.
bool is_passing(int error) { return error == -EINTR || error == -EAGAIN || error == -EBUSY || error == -ETIME; }

timespec time_of(std::uint64_t ns) {
    return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace

Disk::Disk(unsigned depth, unsigned file_slots, ReadWatcher& watcher, metrics::Fallbacks& fallbacks)
    : depth_(depth), watcher_(watcher), fallbacks_(fallbacks), fds_(file_slots, -1), scratch_(kPiece) {
    ring::RingOptions options;
    options.entries = std::bit_ceil(std::clamp(2 * depth + 2, 8u, 4096u));
    options.cq_entries = 4 * options.entries;
    options.file_slots = 0;
    auto ring = ring::Ring::create(options, fallbacks);
    if (ring) {
        ring_ = std::move(*ring);
    } else {
        fallbacks.note("no-ring", ring.error() + "; walks read one block at a time, ranges are asked for by fadvise");
    }
    ready_.reserve(options.cq_entries);
    fetched_.reserve(options.cq_entries);
    plain_.reserve(depth);
}

Disk::~Disk() {
    // The kernel may still write into the scratch memory; it stays until that is over.
    while (ring_ && bound_ && under_way_ > 0) {
        if (enter(1, {}) < 0) break;
        fetched_.clear();
        ready_.clear();
    }
}

std::string Disk::describe() const {
    return ring_ ? "io_uring (" + ring_->flags() + ") into the page cache" : "pread and fadvise, one at a time";
}

bool Disk::add_file(std::uint32_t slot, int fd) {
    fds_[slot] = fd;
    return true;
}

bool Disk::bind() {
    if (bound_) return true;
    if (ring_->bind_to_thread() < 0) return false;
    bound_ = true;
    // File systems that cannot read without waiting (FUSE) are read by kernel threads, of which a ring has few
    // otherwise.
    unsigned workers[2] = {depth_, 0};
    if (io_uring_register_iowq_max_workers(ring_->get(), workers) != 0)
        fallbacks_.note("few-workers", "the kernel does not let a ring have more threads (Linux 5.15)");
    return true;
}

io_uring_sqe* Disk::next_sqe() {
    io_uring_sqe* sqe = io_uring_get_sqe(ring_->get());
    if (sqe != nullptr || !bind()) return sqe;
    calls_++;
    const int result = io_uring_submit(ring_->get());
    if (result < 0 && !is_passing(result)) fail(result);
    return error_ == 0 ? io_uring_get_sqe(ring_->get()) : nullptr;
}

// Of what the kernel has not taken it knows nothing: that ends here. What it has taken it may still write.
void Disk::fail(int error) {
    error_ = error;
    const io_uring_sq& queue = ring_->get()->sq;
    const unsigned first = *queue.khead, count = io_uring_sq_ready(ring_->get());
    for (unsigned i = 0; i < count; i++) {
        const std::uint64_t user_data = queue.sqes[(first + i) & queue.ring_mask].user_data;
        if (user_data == kWake) {
            wake_armed_ = false;
        } else {
            take(user_data, error);
        }
    }
}

std::string Disk::failure() const {
    return error_ == 0 ? std::string() : std::string("io_uring_enter: ") + std::strerror(-error_);
}

void Disk::push(const engine::ReadOp& op) {
    if (!ring_) return plain_.push_back(op);
    if (error_ != 0) return ready_.push_back({op.token, error_});
    io_uring_sqe* sqe = next_sqe();
    const std::uint32_t number = watcher_.read_begins(op);
    if (sqe == nullptr) {
        watcher_.read_done(number, -EAGAIN);
        ready_.push_back({op.token, -EAGAIN});
        return;
    }
    io_uring_prep_read(sqe, fds_[op.file], op.data, op.length, op.offset);
    sqe->user_data = std::uint64_t{number} << 32 | op.token;
    under_way_++;
}

bool Disk::fetch(int fd, std::uint64_t offset, std::uint32_t length, std::uint32_t number, std::uint8_t* to) {
    length = std::min(length, kPiece);
    if (!ring_ && to != nullptr) return false;
    if (!ring_) {
        calls_++;
        const int error =
            posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_WILLNEED);
        fetched_.push_back({number, error != 0 ? -error : static_cast<std::int32_t>(length)});
        return true;
    }
    if (error_ != 0 || fetches_ >= depth_) return false;
    io_uring_sqe* sqe = next_sqe();
    if (sqe == nullptr) return false;
    io_uring_prep_read(sqe, fd, to != nullptr ? to : scratch_.data(), length, offset);
    sqe->user_data = kFetch | number;
    under_way_++;
    fetches_++;
    return true;
}

bool Disk::begin_read(int fd, std::uint64_t offset, std::uint64_t length, std::uint64_t at_once) {
    knows_blocks_ = false;
    for (const std::uint64_t end = offset + length; offset < end; offset += at_once) {
        calls_++;
        if (readahead(fd, static_cast<off64_t>(offset), std::min(at_once, end - offset)) == 0) continue;
        can_begin_ = false;
        fallbacks_.note("no-readahead", std::string("the kernel does not begin a read by itself (readahead: ") +
                                            std::strerror(errno) + "), the ring does");
        return false;
    }
    return true;
}

// Reads a byte if that needs no wait; the kernel reads ahead all the same.
void Disk::touch(int fd, std::uint64_t page) {
    knows_blocks_ = false;
    calls_++;
    const iovec vector{scratch_.data(), 1};
    preadv2(fd, &vector, 1, static_cast<off_t>(page * kPageBytes), RWF_NOWAIT);
}

// Returns where the windows end. What is in memory of a file of which nothing was before ends there. A mark that is not
// there is not touched: a page that is missed behind others begins a window of any size.
std::uint64_t Disk::grow(int fd, std::uint64_t pages, std::uint64_t most, bool all) {
    const auto begun = [&] { return cached(fd, 0, (pages + most) * kPageBytes).value_or(0); };
    touch(fd, 0);
    Windows windows(most, begun());
    while (windows.mark() < windows.end() && windows.end() < pages && (all || windows.next_end() <= pages)) {
        touch(fd, windows.mark());
        const std::uint64_t end = begun();
        if (end <= windows.end()) break;
        windows.grow(end);
    }
    return windows.end();
}

// Small files are not worth a look, nor do their windows grow so far.
FirstTouch::How Disk::begin_how(std::uint64_t pages) {
    if (pages < kLeastLookedAt) return FirstTouch::How::in_windows;
    const FirstTouch::How how = first_touch_.next();
    if (how == FirstTouch::How::singly)
        fallbacks_.note("no-large-folios",
                        "large pieces of memory cost more to touch first, as those that a virtual machine's host has "
                        "taken back: files come in single pages");
    return how;
}

// Their last quarter. The mark of the last window is in front of it: to read that would begin another one.
void Disk::note_filled(FirstTouch::How how, std::uint64_t pages) {
    if (pages >= kLeastLookedAt) filled_ = {how, pages - pages / 4, pages / 4};
}

// How long that took, in ns; nothing where it is not there.
std::optional<std::uint64_t> Disk::read_byte(int fd, std::uint64_t page) {
    calls_++;
    const iovec vector{scratch_.data(), 1};
    const std::uint64_t begun = now_ns();
    if (preadv2(fd, &vector, 1, static_cast<off_t>(page * kPageBytes), RWF_NOWAIT) != 1) return {};
    return now_ns() - begun;
}

// The median of some pages: one may wait for something else.
void Disk::look_at(int fd, const Filled& filled) {
    constexpr std::size_t kPages = 16, kEnough = 8;
    if (filled.count < kPages || !first_touch_.wants(filled.how)) return;
    std::array<std::uint64_t, kPages> longer;
    std::size_t count = 0;
    knows_blocks_ = false;
    for (std::size_t i = 0; i < kPages; i++) {
        const std::uint64_t page = filled.first + i * (filled.count / kPages);
        const auto first = read_byte(fd, page);
        const auto second = first ? read_byte(fd, page) : first;
        if (second) longer[count++] = *first - std::min(*first, *second);
    }
    if (count < kEnough) return;
    const auto median = longer.begin() + count / 2;
    std::nth_element(longer.begin(), median, longer.begin() + count);
    first_touch_.took(filled.how, *median);
}

bool Disk::begin_file(int fd, std::uint64_t length, std::uint64_t at_once, bool all) {
    const std::uint64_t pages = (length + kPageBytes - 1) / kPageBytes, most = at_once / kPageBytes;
    filled_ = {};
    if (most < Windows::kLeast || pages <= Windows::kLeast) return begin_read(fd, 0, length, at_once);
    const auto there = cached(fd, 0, (pages + most) * kPageBytes);
    if (!there && can_ask_)
        fallbacks_.note("no-windows",
                        "the kernel does not say what is in memory of somebody else's file: it comes in single pages");
    // Where some of it is there, windows are nothing to go by.
    if (there == 0 && begin_how(pages) == FirstTouch::How::singly) {
        note_filled(FirstTouch::How::singly, pages);
    } else if (there == 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL);
        const std::uint64_t end = grow(fd, pages, most, all);
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        calls_ += 2;
        note_filled(FirstTouch::How::in_windows, end);
        if (end >= pages) return true;
    }
    return begin_read(fd, 0, length, at_once);
}

void Disk::take(std::uint64_t user_data, std::int32_t result) {
    if (user_data == kWake) {
        wake_armed_ = false;
        if (result == -EINVAL || result == -EOPNOTSUPP || result == -ENOSYS) {
            can_wake_ = false;
            fallbacks_.note("no-ring-futex",
                            "a ring cannot wait for a program's wake-up as well (Linux 6.7): it looks every 0.1 ms");
        }
        return;
    }
    under_way_--;
    if ((user_data & kFetch) != 0) {
        fetches_--;
        fetched_.push_back({static_cast<std::uint32_t>(user_data), result});
        return;
    }
    watcher_.read_done(static_cast<std::uint32_t>(user_data >> 32), result);
    ready_.push_back({static_cast<std::uint32_t>(user_data), result});
}

void Disk::reap() {
    io_uring* ring = ring_->get();
    unsigned head = 0, count = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(ring, head, cqe) {
        take(cqe->user_data, cqe->res);
        count++;
    }
    io_uring_cq_advance(ring, count);
}

void Disk::read_plainly() {
    for (const engine::ReadOp& op : plain_) {
        const std::uint32_t number = watcher_.read_begins(op);
        const std::int32_t result = read_now(op, false);
        watcher_.read_done(number, result);
        ready_.push_back({op.token, result});
    }
    plain_.clear();
}

// A ring that has failed still hands out what it was given before, if it can be asked.
int Disk::enter_ring(unsigned wait_for) {
    io_uring* ring = ring_->get();
    if (error_ != 0 && under_way_ == 0) return error_;
    calls_++;
    if (error_ != 0)
        return io_uring_enter(static_cast<unsigned>(ring->ring_fd), 0, wait_for, IORING_ENTER_GETEVENTS, nullptr);
    const int result = wait_for == 0 ? io_uring_submit_and_get_events(ring) : io_uring_submit_and_wait(ring, wait_for);
    if (result >= 0 || is_passing(result)) return 0;
    fail(result);
    return result;
}

int Disk::enter(unsigned wait_for, std::span<engine::ReadDone> done) {
    knows_blocks_ = false;
    if (!ring_) {
        read_plainly();
    } else {
        if (!bind()) return -EEXIST;
        const unsigned wanted = wait_for > ready_.size() ? wait_for - static_cast<unsigned>(ready_.size()) : 0;
        const int result = enter_ring(wanted);
        reap();
        if (result < 0 && wait_for > ready_.size()) return result;
    }
    const std::size_t count = std::min(done.size(), ready_.size());
    std::copy_n(ready_.begin(), count, done.begin());
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<int>(count);
}

std::int32_t Disk::read_now(const engine::ReadOp& op, bool only_cached) {
    const int fd = fds_[op.file];
    if (!only_cached) {
        calls_++;
        const ssize_t got = pread(fd, op.data, op.length, static_cast<off_t>(op.offset));
        return got < 0 ? -errno : static_cast<std::int32_t>(got);
    }
    if (!std::exchange(knows_blocks_, true)) blocks_ = blocks_read();
    const std::uint64_t before = now_ns();
    const std::int32_t result = read_cached(fd, op);
    if (result != static_cast<std::int32_t>(op.length)) {
        knows_blocks_ = false;
        return result;
    }
    if (came_from_device(now_ns() - before, op.length)) {
        watcher_.read_at_once(op);
    } else {
        watcher_.read_in_memory(op);
    }
    return result;
}

long Disk::blocks_read() {
    rusage usage{};
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_inblock : 0;
}

// A read that is not to wait begins what is not in memory all the same, and finds it there where the device is done
// before the kernel looks: some hosts do the work on the processor that asks for it. The count costs as much as a read
// of a page: it is asked for where one has taken long, and anew behind whatever may have begun others.
bool Disk::came_from_device(std::uint64_t took_ns, std::uint32_t length) {
    constexpr std::uint64_t kQuick = 5'000, kBytesInNs = 4;
    if (took_ns < kQuick + length / kBytesInNs) return false;
    const long now = blocks_read();
    return std::exchange(blocks_, now) != now;
}

std::int32_t Disk::read_cached(int fd, const engine::ReadOp& op) {
    calls_++;
    iovec vector{op.data, op.length};
    const ssize_t got = preadv2(fd, &vector, 1, static_cast<off_t>(op.offset), RWF_NOWAIT);
    if (got >= 0) return static_cast<std::int32_t>(got);
    if (errno != EOPNOTSUPP && errno != EINVAL) return -errno;
    // A file system without such reads (FUSE, overlayfs): the kernel is asked what is in memory, and what is there is
    // read plainly.
    if (watcher_.read_on_its_way(op) || !ask_kernel(fd, op.offset, op.length, false).value_or(false)) return -EAGAIN;
    calls_++;
    const ssize_t plain = pread(fd, op.data, op.length, static_cast<off_t>(op.offset));
    return plain < 0 ? -errno : static_cast<std::int32_t>(plain);
}

std::optional<std::uint64_t> Disk::cached(int fd, std::uint64_t offset, std::uint64_t length) {
    if (!can_ask_) return std::nullopt;
    calls_++;
    CachestatRange range{offset, length};
    Cachestat found{};
    if (syscall(kCachestat, fd, &range, &found, 0) == 0) return found.cached;
    // EPERM is about this one file: one may read it without being allowed to ask.
    if (errno == ENOSYS) {
        can_ask_ = false;
        fallbacks_.note("no-cachestat",
                        "the kernel does not say what is in memory (cachestat, Linux 6.5): it is tried");
    }
    return std::nullopt;
}

std::optional<bool> Disk::ask_kernel(int fd, std::uint64_t offset, std::uint64_t length, bool counts) {
    auto pages = cached(fd, offset, length);
    // None may also mean that the file's pages are another one's.
    if (!counts && pages.value_or(0) == 0) {
        calls_ += 3;
        if (const auto seen = resident_pages(fd, offset, length)) pages = seen;
    }
    if (!pages) return std::nullopt;
    return *pages >= (offset + length + kPageBytes - 1) / kPageBytes - offset / kPageBytes;
}

bool Disk::in_memory(int fd, std::uint64_t offset, std::uint64_t length, bool counts) {
    if (const auto told = ask_kernel(fd, offset, length, counts)) return *told;
    for (const std::uint64_t end = offset + length; offset < end; offset += scratch_.size()) {
        calls_++;
        const iovec vector{scratch_.data(), std::min<std::uint64_t>(end - offset, scratch_.size())};
        const ssize_t got = preadv2(fd, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT);
        if (got != static_cast<ssize_t>(vector.iov_len)) return false;
    }
    return true;
}

void Disk::arm_wake(std::atomic<std::uint32_t>& word) {
    if (wake_armed_ || !can_wake_) return;
    io_uring_sqe* sqe = next_sqe();
    if (sqe == nullptr) return;
    constexpr unsigned kSize32 = 2;  // FUTEX2_SIZE_U32, not private: the programs are other processes
    io_uring_prep_futex_wait(sqe, reinterpret_cast<std::uint32_t*>(&word), 1, FUTEX_BITSET_MATCH_ANY, kSize32, 0);
    sqe->user_data = kWake;
    wake_armed_ = true;
}

void Disk::wait(std::atomic<std::uint32_t>& word, std::uint64_t ns, bool for_reads) {
    if (error_ == 0 && (!fetched_.empty() || !ready_.empty() || !plain_.empty())) return;
    knows_blocks_ = false;
    // Who wakes `word` wakes one that waits for it: while the ring still does, nobody else would hear of it. Of one
    // that has failed this costs a single sleep.
    const bool ring_waits = (for_reads || wake_armed_) && ring_ && error_ == 0 && bind();
    if (ring_waits) arm_wake(word);
    calls_++;
    if (!ring_waits || error_ != 0 || (!can_wake_ && under_way_ == 0)) {
        const timespec time = time_of(ns);
        syscall(SYS_futex, &word, FUTEX_WAIT, 1, &time, nullptr, 0);
        return;
    }
    if (!can_wake_) ns = std::min(ns, kLongestBlindWait);
    __kernel_timespec time{static_cast<std::int64_t>(ns / 1'000'000'000), static_cast<long long>(ns % 1'000'000'000)};
    io_uring_cqe* cqe = nullptr;
    const int result = io_uring_submit_and_wait_timeout(ring_->get(), &cqe, 1, &time, nullptr);
    if (result < 0 && !is_passing(result)) fail(result);
    reap();
}

}  // namespace chainio::shadow
