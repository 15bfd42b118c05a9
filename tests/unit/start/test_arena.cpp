#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "tools/chainio/start/small/arena.h"

namespace chainio::start {
namespace {

TEST(Arena, WhatWasTakenLastIsTakenAgain) {
    Arena<1024> arena;
    void* const first = arena.take(10);
    void* const second = arena.take(100);
    EXPECT_TRUE(arena.give_back(second));
    EXPECT_EQ(arena.take(200), second);
    EXPECT_TRUE(arena.give_back(first));
    EXPECT_NE(arena.take(10), first) << "what was taken behind it is in use";
}

TEST(Arena, NothingOverlapsAndAllIsAligned) {
    Arena<4096> arena;
    std::uintptr_t end = 0;
    for (const std::size_t size : {1, 16, 17, 0, 100, 3}) {
        const auto at = reinterpret_cast<std::uintptr_t>(arena.take(size));
        EXPECT_EQ(at % alignof(std::max_align_t), 0U);
        EXPECT_GE(at, end);
        std::memset(reinterpret_cast<void*>(at), 1, size);
        end = at + size;
    }
}

TEST(Arena, NothingIsAPlaceOfItsOwn) {
    Arena<64> arena;
    void* const nothing = arena.take(0);
    void* const something = arena.take(32);
    EXPECT_NE(something, nothing);
    EXPECT_TRUE(arena.give_back(nothing));
    EXPECT_NE(arena.take(16), something) << "it is in use";
    EXPECT_EQ(arena.take(0), nullptr);
}

TEST(Arena, WhatDoesNotFitIsRefusedAndLeavesTheRest) {
    Arena<64> arena;
    EXPECT_EQ(arena.take(65), nullptr);
    EXPECT_EQ(arena.take(SIZE_MAX), nullptr);
    void* const most = arena.take(49);
    EXPECT_NE(most, nullptr);
    EXPECT_EQ(arena.take(1), nullptr);
    EXPECT_TRUE(arena.give_back(most));
    EXPECT_EQ(arena.take(64), most);
}

TEST(Arena, OthersMemoryIsNotItsOwn) {
    Arena<64> arena;
    int other = 0;
    EXPECT_FALSE(arena.give_back(&other));
    EXPECT_FALSE(arena.give_back(nullptr));
    EXPECT_FALSE(arena.give_back(&arena + 1));
}

}  // namespace
}  // namespace chainio::start
