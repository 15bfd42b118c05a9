// Blocks of immutable files, kept in frames: a bounded map from (file, offset, length), evicting what was not used
// lately.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/metrics/counters.h"
#include "runtime/umem/slab.h"

namespace chainio::engine {

class BlockCache {
  public:
    static constexpr std::uint32_t kNone = UINT32_MAX;
    struct Entry {
        std::uint64_t offset = 0;
        std::uint32_t file = 0, length = 0;
        std::uint32_t skip = 0;  // where the block begins in its frame
        umem::Frame frame = umem::kNoFrame;
        std::uint32_t pins = 0;            // a pinned block is in use by a step or a result
        std::uint32_t chain_next = kNone;  // in its bucket, or in the list of free entries
        bool referenced = false, used = false;
    };

    BlockCache(umem::Slab& slab, umem::Owner owner, std::uint64_t limit_bytes, metrics::EngineCounters& counters);
    ~BlockCache();
    BlockCache(const BlockCache&) = delete;
    BlockCache& operator=(const BlockCache&) = delete;

    // The entry, pinned; kNone when the block is not here.
    std::uint32_t find(std::uint32_t file, std::uint64_t offset, std::uint32_t length);
    // Takes the frame over from `from` and pins the entry. kNone: not taken, the frame stays with its owner.
    std::uint32_t insert(std::uint32_t file, std::uint64_t offset, std::uint32_t length, std::uint32_t skip,
                         umem::Frame frame, umem::Owner from);
    void unpin(std::uint32_t entry);
    const Entry& entry(std::uint32_t index) const { return entries_[index]; }
    bool evict_one();  // false: nothing is left that is not pinned
    void drop_file(std::uint32_t file);
    std::uint64_t bytes() const { return bytes_; }

  private:
    std::uint32_t bucket_of(std::uint32_t file, std::uint64_t offset, std::uint32_t length) const;
    void remove(std::uint32_t index);

    umem::Slab& slab_;
    umem::Owner owner_;
    std::uint64_t limit_;
    metrics::EngineCounters& counters_;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> buckets_;
    std::uint32_t free_ = kNone;
    std::uint32_t hand_ = 0;       // of the clock
    std::uint32_t ever_used_ = 0;  // entries that held a block at least once; the clock goes round these
    std::uint64_t bytes_ = 0;
};

}  // namespace chainio::engine
