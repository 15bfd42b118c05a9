// What reads with O_DIRECT of a file have to be aligned to.
#pragma once
#include <cstdint>
#include <optional>

namespace chainio::engine {

struct Alignment {
    std::uint32_t offset = 1;  // of offsets and lengths, in bytes; 0: the file takes no O_DIRECT
    std::uint32_t memory = 1;  // of addresses
};

// What every device takes, where nobody says.
constexpr Alignment kSafeAlignment{4096, 4096};

// Nothing where the file system or the kernel (statx, from Linux 6.1 on) does not say, as tmpfs does not.
std::optional<Alignment> direct_alignment(int fd);

}  // namespace chainio::engine
