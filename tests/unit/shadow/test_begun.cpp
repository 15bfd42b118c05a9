// Fetches that the kernel is only told to begin, and where the ring reads them instead.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/shadow/unheard.h"
#include "tests/unit/shadow/fixture.h"

namespace {
std::atomic<unsigned> begun{0};
std::atomic<bool> makes_wait{false};  // as FUSE: there are no reads that need not wait
}  // namespace

// What is linked with these asks the kernel by way of them.
extern "C" ssize_t readahead(int fd, off64_t offset, size_t length) noexcept {
    begun++;
    return syscall(SYS_readahead, fd, offset, length);
}
extern "C" ssize_t preadv2(int fd, const iovec* vector, int count, off_t offset, int flags) {
    if (makes_wait && (flags & RWF_NOWAIT) != 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return syscall(SYS_preadv2, fd, vector, count, offset, 0, flags);
}

namespace chainio::shadow::test {
namespace {

using tests::Poster;

constexpr std::uint32_t kNamed = 32;

// Page 0 names every other page behind it, all of which are fetched; gives how many were only begun.
unsigned begun_of_fetches() {
    std::string bytes(std::size_t{2 * kNamed + 1} * kPage, 0);
    bytes[0] = kNamed;
    for (std::uint32_t i = 1; i <= kNamed; i++) bytes[4 * i] = static_cast<char>(2 * i);
    const Folder folder;
    const std::string path = folder.write("a.ptr", bytes);
    Running running(server_of(kPointers));
    Poster poster(running.region(), 0);
    drop_pages(path);
    const unsigned before = begun;
    EXPECT_TRUE(poster.opened(0, path));
    EXPECT_TRUE(poster.read(0, path, 0, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().fetches == kNamed; })) << running.chain().fetches;
    EXPECT_TRUE(happens([&] { return pages_in_memory(path, 1, 2 * kNamed) == kNamed; }));
    running.stop();
    return begun - before;
}

TEST(Begun, OneFetchInSixteenIsHeardOf) {
    EXPECT_EQ(begun_of_fetches(), kNamed * Unheard::kInARow / (Unheard::kInARow + 1));
}

TEST(Begun, WhereTheCallerWouldWaitTheRingReads) {
    makes_wait = true;
    EXPECT_EQ(begun_of_fetches(), 0u);
    makes_wait = false;
}

}  // namespace
}  // namespace chainio::shadow::test
