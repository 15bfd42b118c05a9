#include "tools/chainio/keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace chainio::tool {
namespace {

constexpr std::size_t kRead = std::size_t{64} << 10;
// Values of parameters are far shorter, however they are written.
constexpr std::size_t kMostLine = std::size_t{16} << 20;

UnreadKeys unread(const std::string& path, int error) {
    return {fmt::format("cannot read keys '{}': {}", path, std::strerror(error)), true};
}

bool would_wait(int fd, int milliseconds) {
    pollfd keys{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&keys, 1, milliseconds) == 0;
}

// Waits also where whoever shares the file has said that its reads do not (O_NONBLOCK).
ssize_t read_some(int fd, char* into, std::size_t bytes) {
    while (true) {
        const ssize_t got = ::read(fd, into, bytes);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN)) return got;
        if (errno == EAGAIN) would_wait(fd, -1);
    }
}

}  // namespace

std::expected<Keys, UnreadKeys> Keys::open(const std::string& path) {
    if (path == "-") return Keys(path, STDIN_FILENO);
    run::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::unexpected(unread(path, errno));
    Keys keys(path, file.get());
    keys.opened_ = std::move(file);
    // Not of standard input, which may be a file that was read up to somewhere, and is read on from there.
    struct stat status{};
    if (fstat(keys.fd_, &status) == 0 && S_ISREG(status.st_mode)) keys.size_ = status.st_size;
    return keys;
}

bool Keys::has_line() {
    looked_ = std::min(buffer_.find('\n', begin_ + looked_), buffer_.size()) - begin_;
    return begin_ + looked_ < buffer_.size();
}

bool Keys::is_too_long() const { return looked_ > kMostLine; }

bool Keys::at_hand() {
    while (!has_line() && !is_too_long() && !at_end_) {
        if (would_wait(fd_, 0)) return false;
        fill();
    }
    return true;
}

std::expected<bool, UnreadKeys> Keys::next(std::string& line) {
    while (!has_line() && !is_too_long() && !at_end_) fill();
    if (is_too_long()) {
        const std::string where = fmt::format("{}:{}", path_, number_ + 1);
        return std::unexpected(UnreadKeys{
            fmt::format("{}: the line is longer than {} MiB, as no parameters are", where, kMostLine >> 20), false});
    }
    const bool ended = has_line();
    if (!ended && error_ != 0) return std::unexpected(unread(path_, error_));
    if (!ended && looked_ == 0) return false;
    number_++;
    line.assign(buffer_, begin_, looked_);
    const std::size_t taken = std::exchange(looked_, 0) + ended;
    begin_ += taken;
    bytes_ += static_cast<std::int64_t>(taken);
    return true;
}

void Keys::fill() {
    buffer_.erase(0, std::exchange(begin_, 0));
    const std::size_t before = buffer_.size();
    ssize_t got = -1;
    try {
        buffer_.resize(before + kRead);
        got = read_some(fd_, buffer_.data() + before, kRead);
        if (got < 0) error_ = errno;
    } catch (const std::bad_alloc&) {
        error_ = ENOMEM;
    }
    at_end_ = got <= 0;
    buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
}

}  // namespace chainio::tool
