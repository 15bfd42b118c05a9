#include "runtime/umem/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace chainio::umem {
namespace {

// Linux 6.1; the C library's headers may be older.
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 * 1024 * 1024;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// Room for a mapping that begins where a huge page could; null: any place will do.
void* aligned_place(std::size_t bytes) {
    if (bytes < kHugePage) return nullptr;
    const std::size_t room = bytes + kHugePage;
    void* at = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    auto* begin = static_cast<std::uint8_t*>(at);
    auto* aligned = reinterpret_cast<std::uint8_t*>(round_up(reinterpret_cast<std::uintptr_t>(at), kHugePage));
    if (aligned != begin) munmap(begin, static_cast<std::size_t>(aligned - begin));
    auto* end = aligned + bytes;
    munmap(end, static_cast<std::size_t>(begin + room - end));
    return aligned;
}

// A file that is made larger than that, of memory too, ends the process (SIGXFSZ).
bool may_have(std::size_t bytes) {
    rlimit largest{};
    return getrlimit(RLIMIT_FSIZE, &largest) != 0 || bytes <= largest.rlim_cur;
}

}  // namespace

std::expected<Region, std::string> Region::create(std::size_t bytes, bool want_huge) {
    for (bool huge : {true, false}) {
        if (huge && !want_huge) continue;
        Region region;
        region.huge_ = huge;
        region.size_ = round_up(bytes, huge ? kHugePage : kPage);
        // A program may load up to CIO_PAD bytes behind a block, so the last frame needs readable memory behind it.
        region.mapped_ = region.size_ + (huge ? kHugePage : kPage);
        if (!may_have(region.mapped_)) {
            if (huge) continue;
            return std::unexpected("files may not be as large as the block memory, " + std::to_string(bytes >> 10) +
                                   " KiB (ulimit -f): raise the limit, or take less");
        }
        region.fd_ = memfd_create("chainio-umem", MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0u));
        // Sealed, so that no process that has the descriptor can take memory away from under the others.
        if (region.fd_ < 0 || ftruncate(region.fd_, static_cast<off_t>(region.mapped_)) != 0 ||
            fcntl(region.fd_, F_ADD_SEALS, kSeals) != 0) {
            if (huge) continue;
            return std::unexpected(std::string("cannot make the block memory (memfd): ") + std::strerror(errno));
        }
        if (auto mapped = region.map(); !mapped) {
            if (huge) continue;
            return std::unexpected(mapped.error());
        }
        return region;
    }
    return std::unexpected(std::string("cannot make the block memory"));
}

std::expected<Region, std::string> Region::attach(int fd) {
    const auto unusable = [] {
        return std::unexpected(std::string("cannot use the shared region: ") + std::strerror(errno));
    };
    // The seals first, as a size that was seen before them may not be the one that they keep.
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 && errno != EINVAL) return unusable();
    if (seals < 0 || (seals & kSeals) != kSeals)
        return std::unexpected("the shared region is no memfd of fixed size: its maker could take it away");
    struct stat status{};
    struct statfs system{};
    if (fstat(fd, &status) != 0 || fstatfs(fd, &system) != 0) return unusable();
    Region region;
    region.huge_ = system.f_type == HUGETLBFS_MAGIC;
    const std::size_t page = region.huge_ ? static_cast<std::size_t>(system.f_bsize) : kPage;
    region.mapped_ = static_cast<std::size_t>(status.st_size);
    if (region.mapped_ < 2 * page || region.mapped_ % page != 0)
        return std::unexpected("the shared region has " + std::to_string(region.mapped_) +
                               " bytes, which no region has");
    region.size_ = region.mapped_ - page;
    region.fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (region.fd_ < 0) return unusable();
    if (auto mapped = region.map(); !mapped) return std::unexpected(mapped.error());
    return region;
}

std::expected<void, std::string> Region::map() {
    // The kernel gives huge pages a place that is theirs. A mapping at a fixed place that fails, as theirs does where
    // there are none, has already taken away what kept the place: that may belong to another thread by now, and is not
    // given back.
    void* place = huge_ ? nullptr : aligned_place(mapped_);
    void* at = mmap(place, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED | (place != nullptr ? MAP_FIXED : 0), fd_, 0);
    if (at == MAP_FAILED)
        return std::unexpected("cannot map " + std::to_string(mapped_) +
                               " bytes of block memory: " + std::strerror(errno));
    base_ = static_cast<std::uint8_t*>(at);
    return {};
}

void Region::gather() {
    gathered_ = !huge_ && size_ >= kHugePage;
    for (std::size_t at = 0; gathered_ && at + kHugePage <= size_; at += kHugePage) {
        // A huge page is made from a stretch that has at least one page.
        static_cast<volatile std::uint8_t*>(base_)[at] = 0;
        gathered_ = madvise(base_ + at, kHugePage, MADV_COLLAPSE) == 0;
    }
}

Region::Region(Region&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      huge_(other.huge_),
      gathered_(other.gathered_),
      left_(other.left_) {}

Region& Region::operator=(Region&& other) noexcept {
    if (this == &other) return *this;
    reset();
    base_ = std::exchange(other.base_, nullptr);
    size_ = std::exchange(other.size_, 0);
    mapped_ = std::exchange(other.mapped_, 0);
    fd_ = std::exchange(other.fd_, -1);
    huge_ = other.huge_;
    gathered_ = other.gathered_;
    left_ = other.left_;
    return *this;
}

Region::~Region() { reset(); }

void Region::reset() {
    if (base_ != nullptr && !left_) munmap(base_, mapped_);
    if (fd_ >= 0) close(fd_);
    base_ = nullptr;
    fd_ = -1;
}

}  // namespace chainio::umem
