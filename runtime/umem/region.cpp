#include "runtime/umem/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace chainio::umem {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 * 1024 * 1024;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

std::expected<Region, std::string> Region::create(std::size_t bytes, bool want_huge) {
    for (bool huge : {true, false}) {
        if (huge && !want_huge) continue;
        Region region;
        region.huge_ = huge;
        region.size_ = round_up(bytes, huge ? kHugePage : kPage);
        // A program may load up to CIO_PAD bytes behind a block, so the last frame needs readable memory behind it.
        region.mapped_ = region.size_ + (huge ? kHugePage : kPage);
        region.fd_ = memfd_create("chainio-umem", MFD_CLOEXEC | (huge ? MFD_HUGETLB : 0u));
        if (region.fd_ < 0 || ftruncate(region.fd_, static_cast<off_t>(region.mapped_)) != 0) {
            if (huge) continue;
            return std::unexpected(std::string("cannot make the block memory (memfd): ") + std::strerror(errno));
        }
        void* at = mmap(nullptr, region.mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd_, 0);
        if (at == MAP_FAILED) {
            if (huge) continue;
            return std::unexpected("cannot map " + std::to_string(region.mapped_) +
                                   " bytes of block memory: " + std::strerror(errno));
        }
        region.base_ = static_cast<std::uint8_t*>(at);
        return region;
    }
    return std::unexpected(std::string("cannot make the block memory"));
}

Region::Region(Region&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      huge_(other.huge_) {}

Region& Region::operator=(Region&& other) noexcept {
    if (this == &other) return *this;
    reset();
    base_ = std::exchange(other.base_, nullptr);
    size_ = std::exchange(other.size_, 0);
    mapped_ = std::exchange(other.mapped_, 0);
    fd_ = std::exchange(other.fd_, -1);
    huge_ = other.huge_;
    return *this;
}

Region::~Region() { reset(); }

void Region::reset() {
    if (base_ != nullptr) munmap(base_, mapped_);
    if (fd_ >= 0) close(fd_);
    base_ = nullptr;
    fd_ = -1;
}

}  // namespace chainio::umem
