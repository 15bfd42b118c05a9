// Reads of which the kernel has something to say: memory that cannot be written, places and lengths at the ends of what
// there is, vectors of all sizes, flags of preadv2.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/random_program/actor.h"

namespace chainio::random_program {
namespace {

// Pages, the last of which may not be written.
class Guarded {
  public:
    explicit Guarded(int protection)
        : memory_(static_cast<std::uint8_t*>(
              ::mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        ::mprotect(guard(), kPage, protection);
    }
    ~Guarded() { ::munmap(memory_, kPages * kPage); }
    Guarded(const Guarded&) = delete;
    std::uint8_t* guard() const { return memory_ + (kPages - 1) * kPage; }

  private:
    static constexpr std::size_t kPages = 4;
    std::uint8_t* memory_;
};

constexpr int kProtections[] = {PROT_NONE, PROT_READ};

// In steps by which the kernel copies, so that it is no matter in how many pieces it does.
std::size_t step(Actor& a, std::size_t bound) { return 64 * a.rng.below(bound / 64); }

void guarded_read(Actor& a) {
    const Guarded memory(a.rng.of(kProtections));
    const int fd = a.slot();
    const std::size_t before = step(a, 3 * kPage), size = before + step(a, kPage);
    const auto at = static_cast<off_t>(step(a, kMostBytes));
    std::uint8_t* into = memory.guard() - before;
    long got = 0;
    switch (a.rng.below(3)) {
        case 0:
            ::lseek(fd, at, SEEK_SET);
            got = a.call("guarded read", [&] { return ::read(fd, into, size); });
            break;
        case 1: got = a.call("guarded pread", [&] { return ::pread(fd, into, size, at); }); break;
        default: {
            const iovec parts[2] = {{into, before}, {memory.guard(), size - before}};
            got = a.call("guarded preadv", [&] { return ::preadv(fd, parts, 2, at); });
        }
    }
    a.bytes(into, got);
    a.position(fd);
}

// Of a file that may be served: what it is served into may be anything, too.
void guarded_direct(Actor& a) {
    const std::string path = a.fixed_path();
    const int fd = a.call_fd("open direct", [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC); });
    for (int i = 0; fd >= 0 && i < 4; ++i) {
        const Guarded memory(a.rng.of(kProtections));
        const std::size_t pages = 1 + a.rng.below(3);
        const auto at = static_cast<off_t>(kPage * a.rng.below(26));
        std::uint8_t* inside = memory.guard() - pages * kPage;
        a.bytes(inside, a.call("pread up to it", [&] { return ::pread(fd, inside, pages * kPage, at); }));
        a.call("pread across it", [&] { return ::pread(fd, inside + kPage, pages * kPage, at); });
        a.call("pread into it", [&] { return ::pread(fd, memory.guard(), kPage, at); });
        a.call("pread to nowhere", [&] { return ::pread(fd, nullptr, kPage, at); });
        a.call("pread of nothing", [&] { return ::pread(fd, inside, 0, at); });
        if (i % 2 == 0 && process.settled) ::usleep(2000);
    }
    if (fd >= 0) ::close(fd);
}

constexpr off_t kLast = std::numeric_limits<off_t>::max();
constexpr off_t kPlaces[] = {
    -1, -4096, std::numeric_limits<off_t>::min(), kLast, kLast - 4095, kLast - 8191, off_t{1} << 40, off_t{1} << 62, 0};

void odd_places(Actor& a) {
    const int fd = a.slot();
    const off_t at = a.rng.of(kPlaces);
    const auto into = a.buffer(kPage);
    const iovec part = {into.data(), into.size()};
    a.bytes(into.data(), a.call("pread", [&] { return ::pread(fd, into.data(), into.size(), at); }));
    a.bytes(into.data(), a.call("preadv", [&] { return ::preadv(fd, &part, 1, at); }));
    a.bytes(into.data(), a.call("preadv2", [&] { return ::preadv2(fd, &part, 1, at, 0); }));
    a.call("lseek", [&] { return ::lseek(fd, at, SEEK_SET); });
    a.bytes(into.data(), a.call("read", [&] { return ::read(fd, into.data(), into.size()); }));
    a.position(fd);
    ::lseek(fd, 0, SEEK_SET);
}

// In the program's own image, so that it is the same in all runs whether the length leads out of the address space.
std::uint8_t all_of_a_file[4 * kMostBytes];

void odd_lengths(Actor& a) {
    static constexpr std::size_t kLengths[] = {0, 1, 0x7fff'f000, 0x7fff'f001, 0x1'0000'0000, SIZE_MAX, SIZE_MAX / 2};
    std::uint8_t* volatile into = all_of_a_file;
    const int fd = a.open_some(O_RDONLY);
    if (fd < 0 || ::lseek(fd, 0, SEEK_END) > static_cast<off_t>(sizeof all_of_a_file)) {
        ::close(fd);
        return;
    }
    ::lseek(fd, static_cast<off_t>(a.rng.below(3000)), SEEK_SET);
    const std::size_t length = a.rng.of(kLengths);
    const iovec part = {into, length};
    a.bytes(into, a.call("read", [&] { return ::read(fd, into, length); }));
    a.position(fd);
    a.bytes(into, a.call("pread", [&] { return ::pread(fd, into, length, 100); }));
    a.bytes(into, a.call("preadv", [&] { return ::preadv(fd, &part, 1, 100); }));
    a.bytes(into, a.call("read to nowhere", [&] { return ::read(fd, nullptr, length); }));
    ::close(fd);
}

void odd_vectors(Actor& a) {
    const int fd = a.slot();
    const auto into = a.buffer(kMostBytes);
    static constexpr int kCounts[] = {-1, 0, 1, 7, IOV_MAX, IOV_MAX + 1};
    const int count = a.rng.of(kCounts);
    std::vector<iovec> parts(static_cast<std::size_t>(std::max(count, 1)));
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = {into.data() + 16 * i, a.rng.below(17)};
    switch (a.rng.below(5)) {
        case 0: parts[0] = {nullptr, 0}; break;
        case 1: parts.back() = {nullptr, 16}; break;
        case 2: parts.back().iov_len = SIZE_MAX; break;
        default: break;
    }
    const auto at = static_cast<off_t>(a.rng.below(kMostBytes));
    const long got = a.call("readv", [&] { return ::readv(fd, parts.data(), count); });
    if (got >= 0) a.bytes(into.data(), kMostBytes);
    a.position(fd);
    if (a.call("preadv", [&] { return ::preadv(fd, parts.data(), count, at); }) >= 0) a.bytes(into.data(), kMostBytes);
    a.call("no vectors", [&] { return ::preadv(fd, nullptr, count, at); });
}

void flagged(Actor& a) {
    static constexpr int kFlags[] = {RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_APPEND, RWF_HIPRI | RWF_SYNC, 1 << 30};
    const int fd = a.slot(), flags = a.rng.of(kFlags);
    const auto into = a.buffer(2 * kPage);
    const iovec parts[2] = {{into.data(), kPage}, {into.data() + kPage, kPage}};
    const off_t at = a.rng.chance(30) ? -1 : static_cast<off_t>(kPage * a.rng.below(6));
    a.bytes(into.data(),
            a.call(fmt::format("preadv2 {:x}", flags), [&] { return ::preadv2(fd, parts, 2, at, flags); }));
    a.position(fd);
    const auto from = a.random_bytes(a.writable(fd, a.rng.below(3000)));
    const iovec out = {from.data(), from.size()};
    a.call(fmt::format("pwritev2 {:x}", flags), [&] { return ::pwritev2(fd, &out, 1, at, flags); });
    a.position(fd);
}

}  // namespace

Operations edge_operations() {
    return {{"guarded", 4, guarded_read, true, true},    {"guarded direct", 3, guarded_direct, true, true},
            {"odd places", 3, odd_places, true, true},   {"odd lengths", 2, odd_lengths, false, true},
            {"odd vectors", 3, odd_vectors, true, true}, {"flagged", 3, flagged, true, true}};
}

}  // namespace chainio::random_program
