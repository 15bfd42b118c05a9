// One read's life: a frame, the caches, the device, short reads; and the loop that drives everything.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/engine/engine.h"
#include "runtime/engine/owners.h"

namespace chainio::engine {
namespace {

constexpr std::uint8_t kMostRetries = 64;        // of EINTR and EAGAIN, one read
constexpr std::uint16_t kMissesBeforePause = 4;  // page-cache misses in a row until it is not asked for a while
constexpr std::uint16_t kLongestPause = 256;     // reads
constexpr unsigned kRoundsBetweenPolls = 64;     // of steps that needed no device
constexpr std::uint32_t kFront = 512;            // as much as O_DIRECT wants memory to be aligned on most disks

}  // namespace

std::uint32_t Engine::new_read() {
    if (free_reads_ != kNoIndex) {
        const std::uint32_t index = free_reads_;
        free_reads_ = reads_[index].link.next;
        return index;
    }
    return reads_touched_ < read_limit_ ? reads_touched_++ : kNoIndex;
}

void Engine::free_read(std::uint32_t index) {
    reads_[index].link.next = free_reads_;
    free_reads_ = index;
}

// Offers a block that was read from the device to its file's cache; `passed`: its chain went on from it.
void Engine::cache_block(Read& read, bool passed) {
    const File& file = files_[read.file];
    if (file.keep_passed && !passed) return;
    if (file.cache == nullptr || read.depth >= file.cache_levels || read.cache_entry != kNoIndex) return;
    if (read.failure != 0 || read.frame == umem::kNoFrame) return;
    read.cache_entry = file.cache->insert({.offset = read.offset,
                                           .since_ns = flights_[read.slot].started_ns,
                                           .file = file.id,
                                           .length = read.length,
                                           .skip = read.skip,
                                           .frame = read.frame},
                                          owner_of(read.slot));
}

void Engine::drop_block(Read& read) {
    if (read.cache_entry != kNoIndex) {
        files_[read.file].cache->unpin(read.cache_entry);
    } else if (read.frame != umem::kNoFrame) {
        slab_.release(read.frame, owner_of(read.slot));
    }
    read.cache_entry = kNoIndex;
    read.frame = umem::kNoFrame;
}

// Takes a read away from its chain, wherever it is on its way.
void Engine::drop_read(std::uint32_t index, bool passed) {
    Read& read = reads_[index];
    if (read.state == ReadState::in_flight) {
        read.state = ReadState::orphan;
        files_[read.file].orphans++;
        slab_.transfer(read.frame, owner_of(read.slot), kOrphanOwner);
        return;
    }
    if (read.state == ReadState::waiting) {
        (read.frame == umem::kNoFrame ? waiting_ : again_).remove(read.rank, index);
    } else {
        cache_block(read, passed);
    }
    drop_block(read);
    free_read(index);
}

umem::Frame Engine::allocate(std::uint32_t bytes, umem::Owner owner) {
    for (;;) {
        const umem::Frame frame = slab_.allocate(bytes, owner);
        if (frame != umem::kNoFrame) return frame;
        // A block that might be of use later yields to one that is wanted now.
        bool evicted = false;
        for (auto& cache : caches_) evicted = evicted || (cache != nullptr && cache->evict_one());
        if (!evicted) return umem::kNoFrame;
    }
}

void Engine::issue_waiting(bool may_block) {
    for (;;) {
        // Reads that hold a frame go first, also before more urgent ones, which may be waiting for just that frame.
        auto& queue = again_.empty() ? waiting_ : again_;
        const std::uint32_t index = queue.pop();
        if (index == kNoIndex) return;
        const bool alone = may_block && reads_alone() && waiting_.empty() && again_.empty();
        const Issued issued = issue(index, alone);
        if (issued == Issued::yes) continue;
        if (issued == Issued::no_frame) {
            // With nothing under way and no result that holds a frame, none comes free here. Of frames that were handed
            // out, whoever has them knows whether they come back: he makes the chain again.
            if (on_device_ == 0 && ready_.empty() && finished_.head == kNoIndex && held_.head == kNoIndex) {
                mark_done(index, CIO_NO_MEMORY);
                continue;
            }
            if (!std::exchange(reads_[index].has_waited, true)) counters_.frame_waits++;
        }
        queue.push_front(reads_[index].rank, index);
        return;
    }
}

Engine::Issued Engine::issue(std::uint32_t index, bool alone) {
    Read& read = reads_[index];
    File& file = files_[read.file];
    if (on_device_ >= backend_->capacity()) return Issued::no_room;
    if (read.frame == umem::kNoFrame) {
        if (file.cache != nullptr && read.depth < file.cache_levels) {
            read.cache_entry = file.cache->find(file.id, read.offset, read.length, flights_[read.slot].started_ns);
            if (read.cache_entry != kNoIndex) {
                read.frame = file.cache->entry(read.cache_entry).frame;
                read.skip = file.cache->entry(read.cache_entry).skip;
                mark_done(index, 0);
                return Issued::yes;
            }
        }
        const std::uint64_t mask = file.opened.offset_align - 1;
        const std::uint64_t begin = read.offset & ~mask;
        const std::uint64_t end = (read.offset + read.length + mask) & ~mask;
        if (end > INT64_MAX) {
            mark_done(index, CIO_SHORT_READ);
            return Issued::yes;
        }
        read.skip = static_cast<std::uint32_t>(read.offset - begin);
        read.io_length = static_cast<std::uint32_t>(end - begin);
        const bool kept = file.cache != nullptr && read.depth < file.cache_levels;
        const std::uint32_t least = std::max(file.opened.memory_align, kept ? umem::kUnit : options_.least_frame);
        read.frame = allocate(std::max(read.io_length, least), owner_of(read.slot));
        if (read.frame == umem::kNoFrame) return Issued::no_frame;
        if (kept) counters_.block_cache_misses++;
        // Frames that packets are sent from have room in front for a packet's headers, and for text, where that takes
        // no larger frame.
        const bool sent = !kept && options_.least_frame > umem::kUnit && file.opened.memory_align <= kFront;
        if (sent && slab_.frame_bytes(read.frame) - read.io_length >= kFront) read.front = kFront;
    }
    const ReadOp op = op_of(index);
    if (alone) {
        counters_.plain_reads++;
        arrived(index, backend_->read_now(op, false));
        return Issued::yes;
    }
    if (file.try_page_cache && read_cached_page(index, op, file)) return Issued::yes;
    push(index, op);
    return Issued::yes;
}

ReadOp Engine::op_of(std::uint32_t index) const {
    const Read& read = reads_[index];
    return {.offset = read.offset - read.skip + read.got,
            .data = slab_.data(read.frame) + read.front + read.got,
            .length = read.io_length - read.got,
            .file = read.file,
            .token = index,
            .user_data = flights_[read.slot].user_data};
}

void Engine::push(std::uint32_t index, const ReadOp& op) {
    reads_[index].state = ReadState::in_flight;
    on_device_++;
    unsubmitted_++;
    backend_->push(op);
}

// A buffered read that the page cache can answer is answered here: that is quicker than the way through a ring.
bool Engine::read_cached_page(std::uint32_t index, const ReadOp& op, File& file) {
    if (file.page_cache_pause > 0) {
        file.page_cache_pause--;
        return false;
    }
    const std::int32_t result = backend_->read_now(op, true);
    if (result == static_cast<std::int32_t>(op.length)) {
        file.page_cache_misses = 0;
        counters_.page_cache_reads++;
        arrived(index, result);
        return true;
    }
    counters_.page_cache_misses++;
    if (result == -EOPNOTSUPP || result == -EINVAL) {
        file.try_page_cache = false;
        fallbacks_.note("no-nowait",
                        "the file system of '" + file.opened.path +
                            "' cannot say whether a read would wait (RWF_NOWAIT); all reads go through the ring");
    } else if (!options_.always_try_page_cache && ++file.page_cache_misses >= kMissesBeforePause) {
        const unsigned doublings = std::min(file.page_cache_misses - kMissesBeforePause, 6);
        file.page_cache_pause = std::min<std::uint16_t>(static_cast<std::uint16_t>(4u << doublings), kLongestPause);
    }
    return false;
}

// A chain that has just run a step and wants one more block of the same file: that goes into the frame of the last one,
// and past the queues, when nobody waits in them. Alone in flight the block is read here, on this thread: after each
// wait for the device instructions and data have to come from memory again, so that what counts is how much of them is
// touched.
Engine::GoOn Engine::go_on(std::uint32_t index, bool may_block) {
    Flight& flight = flights_[index];
    Read& read = reads_[flight.head];
    const cio_io& io = *flight.io;
    const cio_next& next = io.next[0];
    const ir::Chain& chain = module_.chains[flight.chain];
    if (io.outcome != CIO_OK || io.finished != 0 || io.next_count != 1 || read.next != kNoIndex) return GoOn::no;
    if (!names_a_read(next, flight, chain) || flight.hops >= chain.hops) return GoOn::no;
    const File& file = files_[read.file];
    const std::uint32_t wanted = flight_files_[index * files_per_flight_ + next.file];
    if (wanted != read.file || file.cache != nullptr || !waiting_.empty() || !again_.empty()) return GoOn::no;
    const bool alone = may_block && reads_alone();
    // Reads that the page cache may answer take turns with those of the device (kRoundsBetweenPolls).
    if (!alone && (file.try_page_cache || on_device_ >= backend_->capacity())) return GoOn::no;
    const std::uint64_t mask = file.opened.offset_align - 1;
    const std::uint64_t begin = next.offset & ~mask, end = (next.offset + next.length + mask) & ~mask;
    // The frame is as aligned as the file asks, since its first block was of this file too.
    if (end > INT64_MAX || end - begin > slab_.frame_bytes(read.frame) - read.front) return GoOn::no;
    flight.hops++;
    read.offset = next.offset;
    read.tag = next.tag;
    read.length = next.length;
    read.skip = static_cast<std::uint32_t>(next.offset - begin);
    read.io_length = static_cast<std::uint32_t>(end - begin);
    read.got = 0;
    read.retries = 0;
    read.step = next.step;
    read.param = next.file;
    read.depth = static_cast<std::uint16_t>(std::min(read.depth + 1, 0xffff));
    const ReadOp op = op_of(flight.head);
    if (!alone) {
        push(flight.head, op);
        return GoOn::under_way;
    }
    counters_.plain_reads++;
    const std::int32_t result = backend_->read_now(op, false);
    if (result == static_cast<std::int32_t>(read.io_length)) {
        counters_.bytes_read += read.io_length;
        return GoOn::block_came;
    }
    arrived(flight.head, result);
    return GoOn::under_way;
}

void Engine::try_again(std::uint32_t index) {
    reads_[index].state = ReadState::waiting;
    again_.push(reads_[index].rank, index);
}

void Engine::arrived(std::uint32_t index, std::int32_t result) {
    Read& read = reads_[index];
    if (read.state == ReadState::orphan) {
        counters_.cancelled_reads++;
        slab_.release(read.frame, kOrphanOwner);
        File& file = files_[read.file];
        if (--file.orphans == 0 && !file.used) let_go(read.file);
        free_read(index);
        return;
    }
    if (result < 0) {
        if ((result == -EINTR || result == -EAGAIN) && read.retries++ < kMostRetries) {
            counters_.retries++;
            return try_again(index);
        }
        return mark_done(index, CIO_IO_ERROR);
    }
    const auto bytes = std::min(static_cast<std::uint32_t>(result), read.io_length - read.got);
    counters_.bytes_read += bytes;
    const std::uint32_t got = read.got + bytes;
    if (got >= read.skip + read.length) return mark_done(index, 0);
    // A short read is carried on at the last byte that the file's alignment allows; the file ended when nothing more
    // comes.
    const std::uint32_t carry_on = got & ~(files_[read.file].opened.offset_align - 1);
    if (bytes == 0 || carry_on <= read.got) return mark_done(index, CIO_SHORT_READ);
    read.got = carry_on;
    counters_.continued_reads++;
    try_again(index);
}

void Engine::mark_done(std::uint32_t index, std::uint32_t failure) {
    Read& read = reads_[index];
    read.state = ReadState::done;
    read.failure = failure;
    if (failure == 0) fetch_into_cache(read);
    if (flights_[read.slot].head == index) ready_.push(read.rank, read.slot);
}

// The blocks of a burst come from memory beside each other, and while other chains' steps run.
void Engine::fetch_into_cache(const Read& read) const {
    constexpr std::uint32_t kLine = 64, kMost = 2048;
    const std::uint8_t* block = slab_.data(read.frame) + read.front + read.skip;
    for (std::uint32_t at = 0; at < std::min(read.length, kMost); at += kLine) __builtin_prefetch(block + at);
}

std::expected<void, std::string> Engine::enter(unsigned wait_for) {
    const int count = backend_->enter(wait_for, done_);
    unsubmitted_ = 0;
    if (count < 0) {
        std::string why = std::string("io_uring_enter: ") + std::strerror(-count);
        if (count == -EEXIST) why += " (an engine belongs to the thread that reaped first)";
        return std::unexpected(why);
    }
    for (int i = 0; i < count; i++) {
        on_device_--;
        arrived(done_[i].token, done_[i].result);
    }
    return {};
}

// Runs what can run without waiting for the device.
std::expected<void, std::string> Engine::advance(bool may_block) {
    unsigned rounds = 0;
    do {
        for (std::uint32_t index; (index = ready_.pop()) != kNoIndex;) run_step(index, may_block);
        issue_waiting(may_block);
        // Chains that live off a cache must not keep more urgent ones, whose blocks have arrived, from running, nor
        // those from beginning that others have asked for meanwhile.
        if (++rounds % kRoundsBetweenPolls != 0) continue;
        if (!may_block && by_turns()) return {};
        if (on_device_ == 0) continue;
        if (auto entered = enter(0); !entered) return entered;
    } while (!ready_.empty());
    return {};
}

std::expected<unsigned, std::string> Engine::reap(std::span<Completion> out, unsigned min) {
    release_held();
    min = std::min<unsigned>(min, static_cast<unsigned>(out.size()));
    if (choice_) retire();
    return choosing() ? reap_choosing(out, min) : reap_here(out, min);
}

std::expected<unsigned, std::string> Engine::reap_here(std::span<Completion> out, unsigned min) {
    return inside_ ? reap_kernel(out, min) : reap_user(out, min);
}

std::expected<unsigned, std::string> Engine::reap_user(std::span<Completion> out, unsigned min) {
    if (auto advanced = advance(min > 0); !advanced) return std::unexpected(advanced.error());
    // Who does not wait here waits elsewhere, so that nothing may be left that the kernel has not been told of.
    for (unsigned pass = 0; min == 0 && on_device_ > 0 && (pass == 0 || unsubmitted_ > 0); pass++) {
        if (auto entered = enter(0); !entered) return std::unexpected(entered.error());
        if (auto advanced = advance(false); !advanced) return std::unexpected(advanced.error());
    }
    unsigned count = hand_over(out, 0);
    // Without a read under way nothing can arrive: only results that hold all frames can bring that about.
    while (count < min && running_ > 0 && on_device_ > 0) {
        auto went_on = enter(1);
        if (went_on) went_on = advance(true);
        if (!went_on) return count_or(count, went_on.error());
        count = hand_over(out, count);
    }
    return count;
}

}  // namespace chainio::engine
