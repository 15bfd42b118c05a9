// A ring's memory region, with the kernel's answer to the registration in the test's hand.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "runtime/ring/ring.h"

namespace {
std::vector<int> answers;          // the next ones, from the last on; none: 0
std::vector<std::uint64_t> asked;  // the places that regions were asked for at
bool there = false;                // whether the memory was, at the last time
}  // namespace

// In front of liburing's own.
extern "C" int io_uring_register_region(io_uring*, io_uring_mem_region_reg* request) {
    const auto* region = reinterpret_cast<const io_uring_region_desc*>(request->region_uptr);
    asked.push_back(region->user_addr);
    unsigned char resident = 0;
    there = mincore(reinterpret_cast<void*>(region->user_addr), 4096, &resident) == 0 && (resident & 1) != 0;
    if (answers.empty()) return 0;
    const int answer = answers.back();
    answers.pop_back();
    return answer;
}

namespace chainio::ring {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

struct Shared {
    int error = 0;
    metrics::Fallbacks fallbacks;
};

// What comes of a region when the kernel answers that, the first answer first.
Shared share(std::vector<int> first) {
    Shared out;
    auto ring = Ring::create({.entries = 4}, out.fallbacks);
    if (!ring) {
        out.error = -1;
        return out;
    }
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    answers.assign(first.rbegin(), first.rend());
    asked.clear();
    out.error = ring->share_region(memory, kBytes, out.fallbacks);
    for (const std::uint64_t place : asked) EXPECT_EQ(place, reinterpret_cast<std::uint64_t>(memory));
    munmap(memory, kBytes);
    return out;
}

TEST(Region, IsSharedAtOnce) {
    const Shared out = share({});
    EXPECT_EQ(out.error, 0);
    EXPECT_EQ(asked.size(), 1u);
    EXPECT_EQ(out.fallbacks.count("memory-region"), 0u);
}

TEST(Region, IsAskedForAgainWithItsPagesThere) {
    const Shared out = share({-EFAULT});
    EXPECT_EQ(out.error, 0);
    EXPECT_EQ(asked.size(), 2u);
    EXPECT_TRUE(there);
    EXPECT_EQ(out.fallbacks.count("memory-region"), 1u);
}

TEST(Region, IsGivenUpAfterThreeTries) {
    const Shared out = share({-EFAULT, -EFAULT, -EFAULT, 0});
    EXPECT_EQ(out.error, EFAULT);
    EXPECT_EQ(asked.size(), 3u);
    EXPECT_EQ(out.fallbacks.count("memory-region"), 2u);
}

TEST(Region, IsNotAskedForAgainWhereTheAnswerWouldBeTheSame) {
    const Shared out = share({-ENOMEM});
    EXPECT_EQ(out.error, ENOMEM);
    EXPECT_EQ(asked.size(), 1u);
}

}  // namespace
}  // namespace chainio::ring
