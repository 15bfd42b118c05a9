#include "tests/bench/lookup/os.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include <xxhash.h>

#include "tests/bench/lookup/contender.h"

namespace chainio::bench {

std::string errno_text(const std::string& what) { return what + ": " + std::strerror(errno); }

std::expected<File, std::string> File::open_direct(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) return std::unexpected(errno_text(path + " cannot be opened with O_DIRECT"));
    return File(fd);
}

File::~File() {
    if (fd_ >= 0) ::close(fd_);
}

AlignedBlock::AlignedBlock(std::size_t bytes)
    : size_((bytes + 4095) / 4096 * 4096), memory_(static_cast<std::uint8_t*>(std::aligned_alloc(4096, size_))) {
    if (!memory_) throw std::bad_alloc();
    std::memset(memory_.get(), 0, size_);
}

void AlignedBlock::Free::operator()(std::uint8_t* memory) const { std::free(memory); }

std::uint64_t device_bytes() {
    std::ifstream io("/proc/self/io");
    for (std::string word; io >> word;) {
        std::uint64_t bytes = 0;
        if (word == "read_bytes:" && io >> bytes) return bytes;
    }
    return 0;
}

std::uint64_t now_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::uint64_t hash_value(std::span<const std::uint8_t> value) { return XXH64(value.data(), value.size(), 0); }

}  // namespace chainio::bench
