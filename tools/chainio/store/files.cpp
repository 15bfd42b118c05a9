#include "tools/chainio/store/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace chainio::store {
namespace {

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string system_text(const std::string& what) { return what + ": " + std::strerror(errno); }

Done write_at(int fd, std::span<const std::uint8_t> bytes, std::uint64_t at) {
    while (!bytes.empty()) {
        const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return std::unexpected(system_text("cannot be written"));
        bytes = bytes.subspan(static_cast<std::size_t>(put));
        at += static_cast<std::uint64_t>(put);
    }
    return {};
}

Done read_at(int fd, std::span<std::uint8_t> bytes, std::uint64_t at) {
    while (!bytes.empty()) {
        const ssize_t got = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::unexpected(system_text("cannot be read"));
        if (got == 0) return std::unexpected("ends before byte " + std::to_string(at + bytes.size()));
        bytes = bytes.subspan(static_cast<std::size_t>(got));
        at += static_cast<std::uint64_t>(got);
    }
    return {};
}

std::expected<NewFile, std::string> NewFile::create(const std::string& path) {
    std::string name = path + ".XXXXXX";
    const int fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) return std::unexpected(system_text("no file can be made in '" + folder_of(path) + "'"));
    return NewFile(fd, name, path);
}

NewFile::NewFile(NewFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), name_(std::move(other.name_)), path_(std::move(other.path_)) {}

NewFile::~NewFile() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(name_.c_str());
}

Done NewFile::commit() {
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd_, 0666 & ~mask) != 0 || fsync(fd_) != 0) return std::unexpected(system_text("cannot be written"));
    if (rename(name_.c_str(), path_.c_str()) != 0) return std::unexpected(system_text("cannot be put in its place"));
    close(std::exchange(fd_, -1));
    // The new name lasts when the folder is written as well.
    const int folder = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return {};
    fsync(folder);
    close(folder);
    return {};
}

std::expected<int, std::string> NewFile::scratch() const {
    std::string name = path_ + ".XXXXXX";
    const int fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) return std::unexpected(system_text("no file can be made in '" + folder_of(path_) + "'"));
    unlink(name.c_str());
    return fd;
}

Done Writer::add(std::span<const std::uint8_t> bytes) {
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    return pending_.size() < kPending ? Done{} : flush();
}

void Writer::pad(std::uint64_t unit) { pending_.resize(pending_.size() + (unit - position() % unit) % unit); }

Done Writer::flush() {
    auto written = write_at(fd_, pending_, flushed_);
    if (!written) return written;
    flushed_ += pending_.size();
    pending_.clear();
    return {};
}

}  // namespace chainio::store
