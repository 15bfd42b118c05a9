#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/probe/elf_view.h"

namespace chainio::probe {

std::expected<MappedFile, std::string> MappedFile::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return std::unexpected(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    struct stat about{};
    void* map = MAP_FAILED;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size <= 0)
        errno = EINVAL;
    else
        // Shared: into private mappings the kernel writes the breakpoints of probes that others have attached.
        map = mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_SHARED, fd, 0);
    const int error = errno;
    ::close(fd);
    if (map == MAP_FAILED) return std::unexpected(fmt::format("cannot map {}: {}", path, std::strerror(error)));
    return MappedFile({static_cast<const std::uint8_t*>(map), static_cast<std::size_t>(about.st_size)});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace chainio::probe
