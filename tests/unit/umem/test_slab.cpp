#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "runtime/umem/slab.h"
#include "tests/support/soak.h"

namespace chainio::umem {
namespace {

Slab make(std::size_t bytes) { return Slab(*Region::create(bytes, false)); }

TEST(Region, IsZeroedReadableBehindItsEndAndHasADescriptor) {
    auto region = Region::create(1 << 20, false);
    ASSERT_TRUE(region) << region.error();
    EXPECT_EQ(region->size(), std::size_t{1} << 20);
    EXPECT_GE(region->fd(), 0);
    for (std::size_t at : {std::size_t{0}, region->size() - 1, region->size() + 7}) EXPECT_EQ(region->base()[at], 0);
    auto moved = std::move(*region);
    moved.base()[5] = 1;
    EXPECT_EQ(moved.base()[5], 1);
}

TEST(Region, GatheredItHasWhatItHad) {
    auto region = Region::create((8 << 20) + 4096, false);
    ASSERT_TRUE(region) << region.error();
    EXPECT_FALSE(region->in_huge_pages());
    for (std::size_t at = 0; at < region->size(); at += 4096 * 100)
        region->base()[at] = static_cast<std::uint8_t>(at >> 12);
    // Whether the kernel has huge pages to give or not.
    region->gather();
    EXPECT_FALSE(region->huge());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region->base()) % (2 << 20), 0u);
    for (std::size_t at = 0; at < region->size(); at += 4096)
        ASSERT_EQ(region->base()[at], at / 4096 % 100 == 0 ? static_cast<std::uint8_t>(at >> 12) : 0) << at;
    EXPECT_EQ(region->base()[region->size() + 7], 0);
    auto small = Region::create(1 << 20, false);
    ASSERT_TRUE(small) << small.error();
    small->gather();
    EXPECT_FALSE(small->in_huge_pages());
}

TEST(Slab, FramesAreAlignedToTheirSizeAndDoNotOverlap) {
    Slab slab = make(1 << 20);
    std::map<std::uint8_t*, std::uint32_t> taken;
    for (std::uint32_t bytes : {1u, 512u, 513u, 4096u, 5000u, 65536u, 65537u}) {
        const Frame frame = slab.allocate(bytes, 1);
        ASSERT_NE(frame, kNoFrame);
        EXPECT_GE(slab.frame_bytes(frame), bytes);
        EXPECT_LT(slab.frame_bytes(frame), std::max(2 * bytes, 1024u));
        EXPECT_EQ((slab.data(frame) - slab.region().base()) % slab.frame_bytes(frame), 0);
        taken[slab.data(frame)] = slab.frame_bytes(frame);
    }
    std::uint8_t* end = nullptr;
    for (const auto& [begin, size] : taken) {
        EXPECT_GE(begin, end);
        end = begin + size;
    }
}

TEST(Slab, RefusesWhatIsTooLargeOwnerlessOrNotThere) {
    Slab slab = make(256 << 10);
    EXPECT_EQ(slab.allocate(kMaxFrame + 1, 1), kNoFrame);
    EXPECT_EQ(slab.allocate(512, 0), kNoFrame);
    EXPECT_NE(slab.allocate(kMaxFrame, 1), kNoFrame);
    EXPECT_NE(slab.allocate(kMaxFrame, 1), kNoFrame);
    EXPECT_EQ(slab.allocate(512, 1), kNoFrame);
    EXPECT_EQ(slab.accounting().exhausted, 1u);
}

TEST(Slab, CountsDoubleFreesForeignFreesAndLeaks) {
    Slab slab = make(256 << 10);
    const Frame frame = slab.allocate(4096, 7);
    EXPECT_FALSE(slab.release(frame, 8));
    EXPECT_FALSE(slab.release(frame + 1, 7));
    EXPECT_FALSE(slab.release(kNoFrame, 7));
    EXPECT_EQ(slab.held().size(), 1u);
    EXPECT_EQ(slab.held().front(), "frame " + std::to_string(frame) + " (4096 bytes): owner 7");
    EXPECT_TRUE(slab.held({7, 8}).empty());
    EXPECT_EQ(slab.held({8, 9}).size(), 1u);
    EXPECT_EQ(slab.held({0, 7}).size(), 1u);
    EXPECT_TRUE(slab.transfer(frame, 7, 9));
    EXPECT_FALSE(slab.transfer(frame, 7, 9));
    EXPECT_FALSE(slab.transfer(frame, 9, 0));
    EXPECT_FALSE(slab.release(frame, 7));
    EXPECT_TRUE(slab.release(frame, 9));
    EXPECT_FALSE(slab.release(frame, 9));
    EXPECT_EQ(slab.accounting().refused, 7u);
    EXPECT_EQ(slab.accounting().in_use_bytes, 0u);
    EXPECT_TRUE(slab.held().empty());
}

TEST(Slab, SmallFramesGiveTheirMemoryBackToLargeOnes) {
    Slab slab = make(256 << 10);
    std::vector<Frame> small;
    for (Frame frame; (frame = slab.allocate(512, 1)) != kNoFrame;) small.push_back(frame);
    EXPECT_EQ(small.size(), (256u << 10) / 512);
    for (const Frame frame : small) EXPECT_TRUE(slab.release(frame, 1));
    EXPECT_NE(slab.allocate(kMaxFrame, 1), kNoFrame);
    EXPECT_NE(slab.allocate(kMaxFrame, 1), kNoFrame);
}

TEST(Slab, HandsOutTheRegisteredPartFirst) {
    Slab slab = make(1 << 20);
    slab.prefer_first(256 << 10);
    for (int i = 0; i < 4; i++) EXPECT_LT(slab.data(slab.allocate(65536, 1)), slab.region().base() + (256 << 10));
    const Frame outside = slab.allocate(65536, 1);
    EXPECT_GE(slab.data(outside), slab.region().base() + (256 << 10));
}

TEST(Slab, HandsOutAnotherPartFirstFromThenOn) {
    Slab slab = make(1 << 20);
    slab.prefer_first(0);
    const Frame full = slab.allocate(kMaxFrame, 1), with_room = slab.allocate(65536, 1);
    slab.prefer_first(512 << 10);
    for (int i = 0; i < 5; i++) EXPECT_LT(slab.data(slab.allocate(65536, 1)), slab.region().base() + (512 << 10));
    EXPECT_EQ(slab.frame_bytes(full), kMaxFrame);
    EXPECT_TRUE(slab.release(full, 1));
    EXPECT_TRUE(slab.release(with_room, 1));
    EXPECT_LT(slab.data(slab.allocate(kMaxFrame, 1)), slab.region().base() + (512 << 10));
}

// A million operations against a model: frames in use never overlap, counts agree, and all memory is there at the end.
TEST(Slab, RandomUseKeepsEveryFrameApart) {
    std::mt19937_64 random(tests::soak_seed());
    Slab slab = make(2 << 20);
    std::map<Frame, std::pair<Owner, std::uint32_t>> in_use;  // frame -> owner, bytes
    for (std::uint64_t turn = 0; turn < tests::soak_count(1'000'000, 20'000'000); turn++) {
        if (turn % 997 == 0) slab.prefer_first(random() % (3 << 20));
        if (random() % 2 == 0) {
            const auto bytes = static_cast<std::uint32_t>(1 + random() % (std::uint64_t{512} << random() % 9));
            const auto owner = static_cast<Owner>(1 + random() % 5);
            const Frame frame = slab.allocate(bytes, owner);
            if (frame == kNoFrame) continue;
            const std::uint32_t units = slab.frame_bytes(frame) / kUnit;
            const auto after = in_use.lower_bound(frame);
            ASSERT_TRUE(after == in_use.end() || frame + units <= after->first);
            if (after != in_use.begin()) {
                const auto before = std::prev(after);
                ASSERT_LE(before->first + before->second.second / kUnit, frame);
            }
            in_use[frame] = {owner, slab.frame_bytes(frame)};
        } else if (!in_use.empty()) {
            auto it = in_use.lower_bound(static_cast<Frame>(random() % (2 << 20) / kUnit));
            if (it == in_use.end()) it = in_use.begin();
            ASSERT_FALSE(slab.release(it->first, it->second.first + 1));
            ASSERT_TRUE(slab.release(it->first, it->second.first));
            in_use.erase(it);
        }
        ASSERT_EQ(slab.accounting().in_use, in_use.size());
    }
    for (const auto& [frame, who] : in_use) ASSERT_TRUE(slab.release(frame, who.first));
    EXPECT_EQ(slab.accounting().in_use_bytes, 0u);
    for (unsigned i = 0; i < (2u << 20) / kSlabBytes; i++) EXPECT_NE(slab.allocate(kSlabBytes, 1), kNoFrame);
}

// Frames of owner 1 are one's own, those of 2 another one's, and those of 3 do not count.
TEST(Slab, IsAloneWhereNobodyCanMakeRoom) {
    Slab slab = make(4 * kSlabBytes);
    const auto alone = [&] {
        return slab.is_alone([&](Frame frame) { return slab.owner(frame) == 1; },
                             [](Owner owner) { return owner != 3; });
    };
    EXPECT_TRUE(alone()) << "who has nothing";
    const Frame small = slab.allocate(512, 1), large = slab.allocate(60000, 1);
    EXPECT_TRUE(alone());
    const Frame passed = slab.allocate(4096, 3);
    EXPECT_TRUE(alone());
    const Frame other = slab.allocate(60000, 2);
    EXPECT_FALSE(alone()) << "in a slab of one's own";
    EXPECT_TRUE(slab.release(other, 2));
    EXPECT_TRUE(alone());
    const Frame in_another = slab.allocate(20000, 2);
    EXPECT_FALSE(alone());
    EXPECT_TRUE(slab.release(in_another, 2));
    // Two slabs for what one has room for: begun anew there would be more.
    const Frame second = slab.allocate(60000, 2), third = slab.allocate(60000, 1);
    EXPECT_TRUE(slab.release(second, 2));
    EXPECT_FALSE(alone());
    EXPECT_TRUE(slab.release(large, 1));
    EXPECT_TRUE(alone());
    const Frame full = slab.allocate(60000, 1);
    EXPECT_TRUE(alone());
    for (const Frame frame : {small, third, full}) EXPECT_TRUE(slab.release(frame, 1));
    EXPECT_TRUE(slab.release(passed, 3));
}

}  // namespace
}  // namespace chainio::umem
