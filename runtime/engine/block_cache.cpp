#include "runtime/engine/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

namespace chainio::engine {
namespace {

constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 31;  // the smallest blocks of 1 TiB
constexpr std::uint64_t kUnitsTogether = 512;                   // units, of a file

// For tables that are looked at anywhere; it is a wish, and only for memory that nobody has touched.
void want_huge_pages(void* begin, std::size_t bytes) {
    constexpr std::uintptr_t kPage = 4096;
    const auto from = (reinterpret_cast<std::uintptr_t>(begin) + kPage - 1) / kPage * kPage;
    const auto to = (reinterpret_cast<std::uintptr_t>(begin) + bytes) / kPage * kPage;
    if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
}

}  // namespace

BlockCache::BlockCache(umem::Slab& slab, umem::Owner owner, const CacheLimits& limits,
                       metrics::EngineCounters& counters)
    : slab_(slab),
      owner_(owner),
      limits_(limits),
      counters_(counters),
      entries_(1 + std::clamp<std::uint64_t>(limits.bytes / umem::kUnit, 1, kMostEntries)),
      buckets_(std::bit_ceil((entries_.size() - 1) * 2)) {
    want_huge_pages(entries_.data(), entries_.size() * sizeof(Entry));
    want_huge_pages(buckets_.data(), buckets_.size() * sizeof(std::uint32_t));
}

BlockCache::~BlockCache() {
    for (std::uint32_t i = 1; i <= ever_used_; i++) {
        if (entries_[i].used) slab_.release(entries_[i].frame, owner_);
    }
}

// Blocks that lie together in the file have buckets that lie together, so that an index of some megabytes is looked up
// in a few pages; stretches of a file are strewn, so that no distance between blocks makes them share buckets.
std::uint32_t BlockCache::bucket_of(std::uint32_t file, std::uint64_t offset, std::uint32_t length) const {
    const std::uint64_t unit = offset / umem::kUnit;
    std::uint64_t hash = (unit / kUnitsTogether) ^ (std::uint64_t{file} << 48) ^ (std::uint64_t{length} << 32);
    hash *= 0x9e3779b97f4a7c15u;
    hash += offset % umem::kUnit;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9u;
    return static_cast<std::uint32_t>(((hash >> 32) + unit % kUnitsTogether) & (buckets_.size() - 1));
}

std::uint32_t BlockCache::find(std::uint32_t file, std::uint64_t offset, std::uint32_t length, std::uint64_t now_ns) {
    for (std::uint32_t i = buckets_[bucket_of(file, offset, length)]; i != 0; i = entries_[i].chain_next) {
        Entry& entry = entries_[i];
        if (entry.offset != offset || entry.file != file || entry.length != length) continue;
        if (now_ns > entry.since_ns && now_ns - entry.since_ns > limits_.good_for_ns) {
            if (entry.pins == 0) remove(i);
            break;
        }
        entry.referenced = true;
        entry.pins++;
        counters_.block_cache_hits++;
        return i;
    }
    return kNone;
}

std::uint32_t BlockCache::insert(const Entry& block, umem::Owner from) {
    const std::uint32_t bucket = bucket_of(block.file, block.offset, block.length);
    // Two chains may have read the same block at the same time; the second copy is not kept.
    for (std::uint32_t i = buckets_[bucket]; i != 0; i = entries_[i].chain_next) {
        const Entry& other = entries_[i];
        if (other.offset == block.offset && other.file == block.file && other.length == block.length) return kNone;
    }
    const std::uint32_t bytes = slab_.frame_bytes(block.frame);
    if (bytes > limits_.bytes) return kNone;
    while ((free_ == 0 && ever_used_ + 1 == entries_.size()) || bytes_ + bytes > limits_.bytes) {
        if (!evict_one()) return kNone;
    }
    if (!slab_.transfer(block.frame, from, owner_)) return kNone;
    const std::uint32_t index = take_entry();
    entries_[index] = block;
    entries_[index].pins = 1;
    entries_[index].chain_next = buckets_[bucket];
    entries_[index].used = true;
    buckets_[bucket] = index;
    bytes_ += bytes;
    return index;
}

// There is one.
std::uint32_t BlockCache::take_entry() {
    if (free_ == 0) return ++ever_used_;
    const std::uint32_t index = free_;
    free_ = entries_[index].chain_next;
    return index;
}

void BlockCache::unpin(std::uint32_t entry) { entries_[entry].pins--; }

bool BlockCache::evict_one() {
    // Two rounds of the clock: the first may only take the marks off.
    for (std::size_t tries = 0; tries < 2 * std::size_t{ever_used_}; tries++) {
        const std::uint32_t index = hand_;
        hand_ = hand_ >= ever_used_ ? 1 : hand_ + 1;
        Entry& entry = entries_[index];
        if (!entry.used || entry.pins != 0) continue;
        if (entry.referenced) {
            entry.referenced = false;
            continue;
        }
        remove(index);
        counters_.block_cache_evictions++;
        return true;
    }
    return false;
}

void BlockCache::drop_file(std::uint32_t file) {
    for (std::uint32_t i = 1; i <= ever_used_; i++) {
        if (entries_[i].used && entries_[i].file == file && entries_[i].pins == 0) remove(i);
    }
}

void BlockCache::remove(std::uint32_t index) {
    Entry& entry = entries_[index];
    std::uint32_t* link = &buckets_[bucket_of(entry.file, entry.offset, entry.length)];
    while (*link != index) link = &entries_[*link].chain_next;
    *link = entry.chain_next;
    bytes_ -= slab_.frame_bytes(entry.frame);
    slab_.release(entry.frame, owner_);
    entry.used = false;
    entry.chain_next = free_;
    free_ = index;
}

}  // namespace chainio::engine
