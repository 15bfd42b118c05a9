#include "runtime/shadow/resident.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "runtime/shadow/ranges.h"

namespace chainio::shadow {
namespace {

constexpr std::uint64_t kMostPages = kPiece / kPageBytes + 1;  // at a time
constexpr std::uint64_t kNowhere = std::uint64_t{1} << 60;     // behind the end of every file

std::optional<std::uint64_t> count(int fd, std::uint64_t offset, std::uint64_t pages) {
    void* at = mmap(nullptr, pages * kPageBytes, PROT_NONE, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (at == MAP_FAILED) return std::nullopt;
    std::array<unsigned char, kMostPages> there{};
    const bool told = mincore(at, pages * kPageBytes, there.data()) == 0;
    munmap(at, pages * kPageBytes);
    if (!told) return std::nullopt;
    return std::ranges::count_if(there, [](unsigned char page) { return (page & 1) != 0; });
}

}  // namespace

// Whom the kernel does not tell, it tells that everything is in memory, also what is nowhere.
std::optional<bool> tells_what_is_resident(int fd) {
    const auto found = count(fd, kNowhere, 1);
    if (!found) return std::nullopt;
    return *found == 0;
}

std::optional<std::uint64_t> resident_pages(int fd, std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t first = offset / kPageBytes, end = (offset + length + kPageBytes - 1) / kPageBytes;
    std::uint64_t found = 0;
    for (std::uint64_t page = first; page < end; page += kMostPages) {
        const auto there = count(fd, page * kPageBytes, std::min(end - page, kMostPages));
        if (!there) return std::nullopt;
        found += *there;
    }
    if (found == end - first && tells_what_is_resident(fd) != true) return std::nullopt;
    return found;
}

}  // namespace chainio::shadow
