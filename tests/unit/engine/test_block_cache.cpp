// The cache of blocks by itself: what it keeps of many small ones.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

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

class SmallCache : public testing::Test {
  protected:
    static constexpr std::uint64_t kBlocks = 32, kGoodFor = 100;

    std::uint32_t put(const BlockCache::Entry& block) {
        BlockCache::Entry made = block;
        made.frame = slab_.allocate(umem::kUnit, kReader);
        const std::uint32_t entry = cache_.insert(made, kReader);
        if (entry == BlockCache::kNone) slab_.release(made.frame, kReader);
        return entry;
    }
    std::uint32_t find(const BlockCache::Entry& block, std::uint64_t now_ns = 0) {
        const std::uint32_t found = cache_.find(block.file, block.offset, block.length, now_ns);
        if (found != BlockCache::kNone) cache_.unpin(found);
        return found;
    }

    umem::Slab slab_{*umem::Region::create(4 * umem::kSlabBytes, false)};
    metrics::EngineCounters counters_;
    BlockCache cache_{slab_, kCache, {.bytes = kBlocks * umem::kUnit, .good_for_ns = kGoodFor}, counters_};
};

// There are few buckets, so that many share one.
TEST_F(SmallCache, ABlockIsFoundByItsFilePlaceAndLengthAndByNothingLess) {
    std::vector<std::pair<BlockCache::Entry, std::uint32_t>> blocks;
    for (std::uint32_t file = 1; file <= 8; file++)
        for (const std::uint64_t offset : {0, 512})
            for (const std::uint32_t length : {100, 200, 300, 400, 500, 512})
                blocks.emplace_back(BlockCache::Entry{.offset = offset, .file = file, .length = length},
                                    BlockCache::kNone);
    for (std::size_t begin = 0; begin < blocks.size(); begin++) {
        for (std::size_t i = 0; i < kBlocks; i++) {
            auto& [block, entry] = blocks[(begin + i) % blocks.size()];
            if (find(block) != BlockCache::kNone) continue;
            entry = put(block);
            ASSERT_NE(entry, BlockCache::kNone);
            cache_.unpin(entry);
        }
        for (const auto& [block, entry] : blocks) {
            const std::uint32_t found = find(block);
            if (found != BlockCache::kNone) EXPECT_EQ(found, entry);
        }
    }
}

TEST_F(SmallCache, ABlockThatIsInUseStays) {
    const auto in_use = block_at(0, 0);
    const std::uint32_t entry = put(in_use);
    ASSERT_NE(entry, BlockCache::kNone);
    for (std::uint64_t i = 1; i <= 4 * kBlocks; i++) {
        const std::uint32_t other = put(block_at(i, 0));
        ASSERT_NE(other, BlockCache::kNone);
        cache_.unpin(other);
    }
    EXPECT_EQ(find(in_use), entry);
    EXPECT_EQ(slab_.owner(cache_.entry(entry).frame), kCache);
    cache_.drop_file(1);
    EXPECT_EQ(find(in_use), entry);
    EXPECT_EQ(find(in_use, kGoodFor + 1), BlockCache::kNone) << "it is too old for somebody else";
    EXPECT_EQ(cache_.entry(entry).offset, in_use.offset);
    EXPECT_EQ(slab_.owner(cache_.entry(entry).frame), kCache);
    cache_.unpin(entry);
}

TEST_F(SmallCache, ABlockThatNeverHasRoomTakesNoneFromOthers) {
    const auto kept = block_at(0, 0);
    cache_.unpin(put(kept));
    BlockCache::Entry large = block_at(1, slab_.allocate(umem::kMaxFrame, kReader));
    EXPECT_EQ(cache_.insert(large, kReader), BlockCache::kNone);
    EXPECT_NE(find(kept), BlockCache::kNone);
    EXPECT_TRUE(slab_.release(large.frame, kReader)) << "it stays with who has read it";
}

TEST_F(SmallCache, WhatIsUsedAgainOutlivesWhatIsNot) {
    const auto used = block_at(0, 0);
    cache_.unpin(put(used));
    for (std::uint64_t i = 1; i <= 4 * kBlocks; i++) {
        cache_.unpin(put(block_at(i, 0)));
        ASSERT_NE(find(used), BlockCache::kNone) << i;
    }
    EXPECT_EQ(put(used), BlockCache::kNone) << "nothing is kept twice";
}

}  // namespace
}  // namespace chainio::engine::test
