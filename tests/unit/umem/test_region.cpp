#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <future>
#include <vector>

#include "runtime/umem/region.h"

namespace {

using chainio::umem::Region;

constexpr std::size_t kBytes = 8 << 20;

// Maps and unmaps until it shall end, and says how often what it had mapped was gone.
unsigned lost_until(const std::atomic<bool>& done) {
    unsigned lost = 0;
    std::vector<unsigned char> seen(kBytes / 4096);
    while (!done && lost == 0) {
        void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int look = 0; look < 4; look++)
            if (at == MAP_FAILED || mincore(at, kBytes, seen.data()) != 0) lost++;
        if (lost == 0) munmap(at, kBytes);
    }
    return lost;
}

// A region for which there are no huge pages is tried with them first. What another thread maps meanwhile may come to
// lie where that has failed.
TEST(Region, TakesNoMemoryOfOtherThreads) {
    std::atomic<bool> done = false;
    std::vector<std::future<unsigned>> others;
    for (int i = 0; i < 4; i++) others.push_back(std::async(std::launch::async, [&] { return lost_until(done); }));
    for (int i = 0; i < 3000; i++) {
        auto region = Region::create(kBytes, true);
        EXPECT_TRUE(region.has_value()) << region.error();
    }
    done = true;
    for (auto& other : others) EXPECT_EQ(other.get(), 0u);
}

}  // namespace
