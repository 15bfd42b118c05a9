#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <vector>

#include "runtime/umem/region.h"

namespace {

// A file that its maker shrinks, and seals, right behind a look at its size. -1: none.
int shrinks_behind_a_look = -1;

}  // namespace

// By which a region's size is asked for.
extern "C" int fstat(int fd, struct stat* status) noexcept {
    const auto failed = static_cast<int>(syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH));
    if (fd < 0 || fd != shrinks_behind_a_look) return failed;
    EXPECT_EQ(ftruncate(fd, status->st_size / 2), 0);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return failed;
}

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

TEST(Region, OfAPeerHasTheSizeThatItsSealsKeep) {
    const int fd = memfd_create("a peer's", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(ftruncate(fd, kBytes), 0);
    shrinks_behind_a_look = fd;
    const auto region = Region::attach(fd);
    shrinks_behind_a_look = -1;
    ASSERT_FALSE(region) << region->size() << " bytes, of which half are gone";
    EXPECT_EQ(region.error(), "the shared region is no memfd of fixed size: its maker could take it away");
    close(fd);
}

}  // namespace
