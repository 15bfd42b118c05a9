// The cache that the rows with a cache give to every contender: the upper levels' blocks, first come, until it is full.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/bench/lookup/contender.h"

namespace chainio::bench {

class BlockCache {
  public:
    explicit BlockCache(const Job& job)
        : levels_(job.cache_levels),
          page_size_(job.page_size),
          bytes_(job.cache_bytes / job.page_size * job.page_size) {}

    // Empty when the block is not held.
    std::span<const std::uint8_t> find(std::uint32_t page, unsigned level) const {
        if (level >= levels_ || page >= slot_.size() || slot_[page] == 0) return {};
        return {bytes_.data() + std::size_t{slot_[page] - 1} * page_size_, page_size_};
    }

    void keep(std::uint32_t page, unsigned level, std::span<const std::uint8_t> block) {
        if (level >= levels_ || std::size_t{used_ + 1} * page_size_ > bytes_.size()) return;
        if (page >= slot_.size()) slot_.resize(page + 1);
        if (slot_[page] != 0) return;
        std::memcpy(bytes_.data() + std::size_t{used_} * page_size_, block.data(), page_size_);
        slot_[page] = ++used_;
    }

  private:
    unsigned levels_;
    std::uint32_t page_size_, used_ = 0;
    std::vector<std::uint8_t> bytes_;
    std::vector<std::uint32_t> slot_;  // of a page; 0: not held, else one more than its slot
};

}  // namespace chainio::bench
