#define XXH_INLINE_ALL  // its library is a shared one only, where packages are built that way
#include "tools/chainio/run/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tools/chainio/run/signals.h"

namespace chainio::run {
namespace {

constexpr off_t kStep = 64 * 1024, kMadeUp = 4096;

constexpr int kPatienceMs = 5'000;

// Who does not want writes to wait is not waited for without end: a reader that has stopped must not keep a program
// from being started, nor a run from ending.
bool wait_for_room(int fd) {
    pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
    const int ready = ::poll(&room, 1, kPatienceMs);
    return ready > 0 || (ready < 0 && errno == EINTR);
}

}  // namespace

std::expected<std::string, std::string> read_whole(int fd, std::size_t most) {
    std::string bytes;
    std::size_t filled = 0;
    struct stat status{};
    // A file of a known size is read without touching more memory than it has bytes, and one that shows its end. What
    // the kernel makes up as it is read, as in /proc, says that it has none.
    const bool is_file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    std::size_t step = kStep;
    if (is_file && status.st_size < kStep)
        step = status.st_size == 0 ? kMadeUp : static_cast<std::size_t>(status.st_size) + 1;
    while (filled < most) {
        if (filled == bytes.size()) bytes.resize(filled + std::exchange(step, kStep));
        const ssize_t n = ::read(fd, bytes.data() + filled, bytes.size() - filled);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return std::unexpected(std::string(std::strerror(errno)));
        if (n == 0) break;
        filled += static_cast<std::size_t>(n);
    }
    bytes.resize(filled);
    return bytes;
}

std::expected<std::string, std::string> read_whole(const std::string& path, std::size_t most) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::unexpected(std::string(std::strerror(errno)));
    return read_whole(file.get(), most);
}

bool write_whole(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && (errno == EINTR || (errno == EAGAIN && wait_for_room(fd)))) continue;
        if (n <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

bool write_unharmed(int fd, std::string_view bytes) {
    const SignalSet before = block_signals(kAllSignals);
    block_signals(before | signal_bit(SIGPIPE) | signal_bit(SIGXFSZ));
    const bool is_written = write_whole(fd, bytes);
    const int error = errno;
    // One alone: others that wait are the program's, if this process becomes it.
    if (!is_written && (error == EPIPE || error == EFBIG)) take_signal(error == EPIPE ? SIGPIPE : SIGXFSZ);
    block_signals(before);
    errno = error;
    return is_written;
}

std::string fingerprint(std::string_view bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    char digits[33];
    std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return digits;
}

std::string resolved(const std::string& path) {
    char real[PATH_MAX];
    return ::realpath(path.c_str(), real) == nullptr ? std::string() : std::string(real);
}

}  // namespace chainio::run
