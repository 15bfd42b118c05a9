// Blocks of files, kept in frames: a bounded map from (file, offset, length), evicting what was not used lately. Blocks
// of immutable files are kept for as long as there is room, others only for a while.
#pragma once
#include <cstdint>

#include "runtime/metrics/counters.h"
#include "runtime/umem/slab.h"
#include "runtime/umem/zeroed.h"

namespace chainio::engine {

struct CacheLimits {
    std::uint64_t bytes = 0;
    std::uint64_t good_for_ns = UINT64_MAX;  // from Entry::since_ns on
};

class BlockCache {
  public:
    static constexpr std::uint32_t kNone = UINT32_MAX;
    struct Entry {
        std::uint64_t offset = 0;
        std::uint64_t since_ns = 0;  // it is not older than that
        std::uint32_t file = 0, length = 0;
        std::uint32_t skip = 0;  // where the block begins in its frame
        umem::Frame frame = umem::kNoFrame;
        std::uint32_t pins = 0;        // a pinned block is in use by a step or a result
        std::uint32_t chain_next = 0;  // in its bucket, or in the list of free entries
        bool referenced = false, used = false;
    };

    BlockCache(umem::Slab& slab, umem::Owner owner, const CacheLimits& limits, metrics::EngineCounters& counters);
    ~BlockCache();
    BlockCache(const BlockCache&) = delete;
    BlockCache& operator=(const BlockCache&) = delete;

    // The entry, pinned; kNone when the block is not here, or is too old by now.
    std::uint32_t find(std::uint32_t file, std::uint64_t offset, std::uint32_t length, std::uint64_t now_ns);
    // A block of which the first fields are told. Takes the frame over from `from` and pins the entry. kNone: not
    // taken, the frame stays with its owner.
    std::uint32_t insert(const Entry& block, umem::Owner from);
    void unpin(std::uint32_t entry);
    const Entry& entry(std::uint32_t index) const { return entries_[index]; }
    bool evict_one();  // false: nothing is left that is not pinned
    void drop_file(std::uint32_t file);
    std::uint64_t bytes() const { return bytes_; }

  private:
    std::uint32_t bucket_of(std::uint32_t file, std::uint64_t offset, std::uint32_t length) const;
    std::uint32_t take_entry();
    void remove(std::uint32_t index);

    umem::Slab& slab_;
    umem::Owner owner_;
    CacheLimits limits_;
    metrics::EngineCounters& counters_;
    // Both take room only as blocks come. Number 0 is no entry: it ends the lists.
    umem::ZeroedVector<Entry> entries_;
    umem::ZeroedVector<std::uint32_t> buckets_;
    std::uint32_t free_ = 0;       // entries that held a block before
    std::uint32_t hand_ = 1;       // of the clock
    std::uint32_t ever_used_ = 0;  // entries 1 to this one held a block at least once; the clock goes round these
    std::uint64_t bytes_ = 0;
};

}  // namespace chainio::engine
