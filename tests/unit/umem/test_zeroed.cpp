// Vectors of zeros that cost nothing to make.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "runtime/umem/zeroed.h"

namespace chainio::umem {
namespace {

constexpr std::size_t kPage = 4096, kPages = 64;

// What malloc gives away next has been written to, and lies in what it has already.
void leave_dirt() {
    constexpr std::size_t kBlock = 2 * kPages * kPage;
    for (int i = 0; i < 2; i++) {
        const std::unique_ptr<char[]> dirt(new char[kBlock]);
        std::memset(dirt.get(), 1, kBlock);
        asm volatile("" : : "r"(dirt.get()) : "memory");
    }
}

std::size_t resident_pages(const void* at, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(at) / kPage * kPage;
    std::array<unsigned char, kPages + 1> pages{};
    EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), bytes, pages.data()), 0);
    return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(Zeroed, IsAllZeroAndTakesNoRoomBeforeItIsTouched) {
    leave_dirt();
    const ZeroedVector<std::uint64_t> vector(kPages * kPage / sizeof(std::uint64_t));
    const std::size_t resident = resident_pages(vector.data(), kPages * kPage);
    EXPECT_TRUE(std::ranges::all_of(vector, [](std::uint64_t value) { return value == 0; }));
    if (kOwnPages <= kPages * kPage) EXPECT_EQ(resident, 0u);
}

TEST(Zeroed, SmallOnesAreZeroToo) {
    leave_dirt();
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, std::size_t{65'535}}) {
        const ZeroedVector<std::uint8_t> vector(bytes);
        EXPECT_TRUE(std::ranges::all_of(vector, [](std::uint8_t value) { return value == 0; })) << bytes;
    }
}

TEST(Zeroed, WhatThereIsNoMemoryForIsRefused) {
    constexpr std::size_t kFarTooMany = std::size_t{1} << 59;
    if (kOwnPages <= kFarTooMany) EXPECT_THROW((ZeroedVector<std::uint64_t>(kFarTooMany)), std::bad_alloc);
    EXPECT_THROW((void)ZeroedAllocator<std::uint64_t>().allocate(SIZE_MAX / 4), std::bad_array_new_length);
}

}  // namespace
}  // namespace chainio::umem
