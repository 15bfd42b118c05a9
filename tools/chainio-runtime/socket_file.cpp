#include "tools/chainio-runtime/socket_file.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace chainio::runtime_tool {
namespace {

// Who does not wait is refused where there is no room, so that many that begin at once want it.
constexpr int kBacklog = 4096;

std::string remedy_of(int why, const char* option) {
    if (why == ENOENT) return fmt::format("; make its folder first, or give {} another path", option);
    if (why == EACCES || why == EROFS || why == EPERM)
        return fmt::format("; give {} a path in a folder that this user may write to", option);
    return "";
}

// Why a socket file has to stay; empty: it was left by a process that is gone, or is gone itself. Of one that does not
// say so, as it is another user's or of another kind, nobody knows.
std::string why_not_ours(const sockaddr_un& address, const std::string& path, int type, const char* option) {
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool served = fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const int why = served ? 0 : errno;
    if (fd >= 0) close(fd);
    if (why == ECONNREFUSED || why == ENOENT) return {};
    // EAGAIN: by somebody who is slow to accept.
    if (served || why == EAGAIN)
        return fmt::format("another process serves '{}'; end that one, or give {} another path", path, option);
    return fmt::format(
        "whether another process serves '{}' cannot be asked: {}; give {} another path, or remove it if nobody does",
        path, std::strerror(why), option);
}

constexpr std::pair<dev_t, ino_t> kNoFile;

// The C library's headers may be older.
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

// Its device and inode.
std::pair<dev_t, ino_t> file_of(const std::string& path) {
    struct stat info{};
    if (lstat(path.c_str(), &info) != 0) return kNoFile;
    return {info.st_dev, info.st_ino};
}

}  // namespace

SocketFile::SocketFile(SocketFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), own_(other.own_) {}

SocketFile& SocketFile::operator=(SocketFile&& other) noexcept {
    if (this == &other) return *this;
    stop();
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
    own_ = other.own_;
    return *this;
}

void SocketFile::stop() {
    if (fd_ < 0) return;
    // First, as whoever finds a socket that nobody serves puts an own one in its place. One that was put there, because
    // somebody had removed ours, stays; one that cannot be asked about is ours as far as anybody knows.
    if (const auto now = file_of(path_); now == own_ || now == kNoFile) unlink(path_.c_str());
    close(std::exchange(fd_, -1));
}

std::expected<SocketFile, std::string> SocketFile::listen(const std::string& path, int type, unsigned mode,
                                                          const char* option) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        return std::unexpected(
            fmt::format("{} '{}': the path of a socket has 1 to {} characters; give a shorter "
                        "one, as below /run",
                        option, path, sizeof address.sun_path - 1));
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    struct stat info{};
    if (lstat(path.c_str(), &info) == 0) {
        if (!S_ISSOCK(info.st_mode))
            return std::unexpected(
                fmt::format("'{}' exists and is not a socket; remove it, or give {} another path", path, option));
        if (std::string why = why_not_ours(address, path, type, option); !why.empty())
            return std::unexpected(std::move(why));
        unlink(path.c_str());
    }
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return std::unexpected(std::string("socket: ") + std::strerror(errno));
    // A descriptor that a client sends along would be closed here, which of some takes as long as their owner likes.
    // Who connects inherits this; kernels before 6.16 do not know it.
    const int none = 0;
    setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &none, sizeof none);
    const mode_t before = umask(0777 & ~mode);
    const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    umask(before);
    SocketFile made;
    made.path_ = path;
    // Without the file's number it could not be told at the end whether it is still ours to remove.
    if (bound == 0) made.own_ = file_of(path);
    if (bound != 0 || made.own_ == kNoFile || ::listen(fd, kBacklog) != 0) {
        const int why = errno;
        close(fd);
        if (bound == 0) unlink(path.c_str());
        return std::unexpected(
            fmt::format("cannot listen at '{}': {}{}", path, std::strerror(why), remedy_of(why, option)));
    }
    made.fd_ = fd;
    return made;
}

}  // namespace chainio::runtime_tool
