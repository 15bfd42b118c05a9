// What the engine keeps of a chain in flight and of its reads, in arrays that are made once.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "bpf-templates/chainio_step.h"
#include "runtime/engine/priority_queue.h"
#include "runtime/umem/slab.h"

namespace chainio::engine {

enum class ReadState : std::uint8_t {
    waiting,  // for a frame or for room in the ring
    in_flight,
    orphan,  // in flight when its chain ended; its frame is freed when it arrives
    done,
};

struct Read {
    std::uint64_t offset = 0, tag = 0;  // as the step asked
    std::uint32_t length = 0;
    std::uint32_t slot = kNoIndex;
    std::uint32_t next = kNoIndex;  // of the same chain
    QueueLink link;                 // in the queue of waiting reads, or of free ones
    umem::Frame frame = umem::kNoFrame;
    std::uint32_t front = 0;               // bytes of the frame that are left free in front of what is read
    std::uint32_t skip = 0;                // where the block begins in that
    std::uint32_t io_length = 0;           // what is read, widened to the file's alignment
    std::uint32_t got = 0;                 // of that
    std::uint32_t failure = 0;             // an outcome, once done
    std::uint32_t cache_entry = kNoIndex;  // the block is the cache's, pinned
    std::uint32_t file = 0;                // index of the open file
    std::uint16_t step = 0, param = 0;     // the step, and the chain's file parameter
    std::uint16_t depth = 0;               // hops before this one
    std::uint16_t rank = 0;                // the chain's priority class
    ReadState state = ReadState::waiting;
    std::uint8_t retries = 0;
    bool has_waited = false;  // for a frame
};

struct Flight {
    cio_io* io = nullptr;
    std::uint32_t chain = 0;
    std::uint32_t head = kNoIndex, tail = kNoIndex;  // reads in queue order
    std::uint32_t hops = 0;
    std::uint32_t outcome = 0;
    QueueLink link;  // in the ready, finished, held or free list
    std::uint16_t rank = 0, file_count = 0;
    bool running = false;                     // submitted and not ended
    umem::Frame held_frame = umem::kNoFrame;  // the result lies in it
    std::uint32_t held_entry = kNoIndex, held_file = 0;
    const std::uint8_t* result = nullptr;
    std::uint32_t result_length = 0;
    std::uint64_t user_data = 0;
    std::uint64_t started_ns = 0, elapsed_ns = 0;
};

// Zeroed memory that takes room only where it is touched.
class LazyMemory {
  public:
    explicit LazyMemory(std::size_t bytes) : bytes_(bytes) {
        void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        base_ = at == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(at);
    }
    ~LazyMemory() {
        if (base_ != nullptr) munmap(base_, bytes_);
    }
    LazyMemory(LazyMemory&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
    LazyMemory& operator=(LazyMemory&&) = delete;
    std::uint8_t* base() const { return base_; }
    // What lies there is of no use any more: whole pages of it take no room until they are touched again.
    void forget(std::size_t offset, std::size_t length) {
        constexpr std::size_t kPage = 4096;
        const std::size_t begin = (offset + kPage - 1) / kPage * kPage, end = (offset + length) / kPage * kPage;
        if (begin < end) madvise(base_ + begin, end - begin, MADV_DONTNEED);
    }

  private:
    std::uint8_t* base_;
    std::size_t bytes_;
};

}  // namespace chainio::engine
