#include "runtime/engine/alignment.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace chainio::engine {
namespace {

// struct statx as the kernel writes it; of STATX_DIOALIGN older headers know nothing.
struct Statx {
    std::uint32_t mask;
    std::uint8_t between[148];
    std::uint32_t memory_align, offset_align;
    std::uint8_t rest[96];
};
static_assert(sizeof(Statx) == 256 && offsetof(Statx, memory_align) == 0x98);
constexpr unsigned kDioAlign = 0x2000;

}  // namespace

std::optional<Alignment> direct_alignment(int fd) {
    Statx found{};
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, kDioAlign, &found) != 0) return std::nullopt;
    if ((found.mask & kDioAlign) == 0) return std::nullopt;
    return Alignment{found.offset_align, found.memory_align};
}

}  // namespace chainio::engine
