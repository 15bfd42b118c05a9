// The cache of blocks by itself: what it keeps of many small ones.
#include <gtest/gtest.h>

#include "runtime/engine/block_cache.h"

namespace chainio::engine::test {
namespace {

constexpr umem::Owner kReader = 1, kCache = 2;

BlockCache::Entry block_at(std::uint64_t number, umem::Frame frame) {
    return {.offset = number * umem::kUnit, .file = 1, .length = umem::kUnit, .frame = frame};
}

// More than a million; nobody touches the blocks themselves, so that they take no memory.
TEST(BlockCache, KeepsAsManyOfTheSmallestBlocksAsItsSizeHasRoomFor) {
    constexpr std::uint64_t kBlocks = (std::uint64_t{1} << 20) + 50'000, kMore = 1'000;
    auto region = umem::Region::create((kBlocks + kMore) * umem::kUnit + umem::kSlabBytes, false);
    ASSERT_TRUE(region) << region.error();
    umem::Slab slab(std::move(*region));
    metrics::EngineCounters counters;
    {
        BlockCache cache(slab, kCache, {.bytes = kBlocks * umem::kUnit}, counters);
        const auto put = [&](std::uint64_t number) {
            const std::uint32_t entry = cache.insert(block_at(number, slab.allocate(umem::kUnit, kReader)), kReader);
            ASSERT_NE(entry, BlockCache::kNone);
            cache.unpin(entry);
        };
        for (std::uint64_t i = 0; i < kBlocks; i++) put(i);
        EXPECT_EQ(counters.block_cache_evictions, 0u);
        EXPECT_EQ(cache.bytes(), kBlocks * umem::kUnit);
        for (std::uint64_t i = 0; i < kBlocks; i++) {
            const std::uint32_t entry = cache.find(1, i * umem::kUnit, umem::kUnit, 0);
            ASSERT_NE(entry, BlockCache::kNone) << i;
            ASSERT_EQ(cache.entry(entry).offset, i * umem::kUnit);
            cache.unpin(entry);
        }
        for (std::uint64_t i = 0; i < kMore; i++) put(kBlocks + i);
        EXPECT_EQ(counters.block_cache_evictions, kMore);
        EXPECT_EQ(cache.bytes(), kBlocks * umem::kUnit);
        cache.drop_file(1);
        EXPECT_EQ(cache.bytes(), 0u);
        put(0);
    }
    EXPECT_EQ(slab.held(), std::vector<std::string>{});
}

}  // namespace
}  // namespace chainio::engine::test
