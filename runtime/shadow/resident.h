// What of a file is in memory, seen through a mapping of it, which is no memory of its own and never touched. That
// tells of the pages that the file's readers get: what lies on another file system (overlayfs, FUSE that passes
// through) has them from a file there, and cachestat(2) counts none of them. It takes longer than cachestat: three
// system calls, and a lock for all that map the file.
#pragma once
#include <cstdint>
#include <optional>

namespace chainio::shadow {

// Whether the kernel says it of this file: to who owns the file or may write to it. Where it cannot be mapped, it is
// not known.
std::optional<bool> tells_what_is_resident(int fd);
// Pages of the range that are in memory. Nothing where the kernel does not say.
std::optional<std::uint64_t> resident_pages(int fd, std::uint64_t offset, std::uint64_t length);

}  // namespace chainio::shadow
