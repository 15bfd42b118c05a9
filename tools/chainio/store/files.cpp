#include "tools/chainio/store/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tools/rights/rights.h"

namespace chainio::store {
namespace {

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

constexpr int kMostLinks = 40;

// Where the last of the links that begin at `path` leads, whether or not something is there.
std::string target_of(std::string path) {
    for (int i = 0; i < kMostLinks; i++) {
        std::error_code error;
        const std::filesystem::path link = std::filesystem::read_symlink(path, error);
        if (error) break;
        path = (std::filesystem::path(folder_of(path)) / link).string();
    }
    return path;
}

// How names of files in the making begin. They have nothing of the store's own, which may be as long as names can be.
std::string beside(const std::string& path) { return folder_of(path) + "/chainio-store."; }

// A file without a name, or else one whose name is left in `name`.
int make_file(const std::string& path, std::string& name) {
    name.clear();
    const int fd = open(folder_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && access("/proc/self/fd", X_OK) == 0) return fd;
    if (fd >= 0) close(fd);  // without /proc it could not get its name
    name = beside(path) + "XXXXXX";
    return mkostemp(name.data(), O_CLOEXEC);
}

// Signals wait while the file has a name that is not its last one.
class Uninterrupted {
  public:
    Uninterrupted() {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before_);
    }
    ~Uninterrupted() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    Uninterrupted(const Uninterrupted&) = delete;
    Uninterrupted& operator=(const Uninterrupted&) = delete;

  private:
    sigset_t before_{};
};

// A name beside `path` for a file that has none; empty when there is none to be had.
std::string give_name(int fd, const std::string& path) {
    const std::string there = "/proc/self/fd/" + std::to_string(fd);
    for (int i = 0; i < 100; i++) {
        std::string name = beside(path) + std::to_string(getpid()) + "." + std::to_string(i);
        if (linkat(AT_FDCWD, there.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return name;
        if (errno != EEXIST) break;
    }
    return {};
}

// Where nothing else is. Not every file system has such a rename, nor such a link.
bool give_free_name(const std::string& name, const std::string& path) {
    if (renameat2(AT_FDCWD, name.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    if (link(name.c_str(), path.c_str()) == 0) {
        unlink(name.c_str());  // it has its place, with another name beside it at worst
        return true;
    }
    // A FUSE server without links has answered ENOSYS until the kernel knew better.
    const bool knows_no_links = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
    return knows_no_links && rename(name.c_str(), path.c_str()) == 0;
}

// Why a file is not written that is to have so many bytes, and what to do about it. More may follow: nobody knows yet.
std::string unwritten(std::uint64_t bytes) {
    const int error = errno;
    std::string why = system_text("cannot be written");
    if (error == ENOSPC || error == EDQUOT)
        why += "; make room for at least " + std::to_string(bytes) + " bytes, beside the store that is replaced";
    if (error == EFBIG)
        why += "; let files have at least " + std::to_string(bytes) + " bytes (ulimit -f, or another file system)";
    return why;
}

}  // namespace

std::string system_text(const std::string& what) { return what + ": " + std::strerror(errno); }

Done write_at(int fd, std::span<const std::uint8_t> bytes, std::uint64_t at) {
    while (!bytes.empty()) {
        const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return std::unexpected(unwritten(at + bytes.size()));
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

std::expected<bool, std::string> read_header(int fd, Header& header) {
    struct stat status{};
    if (fstat(fd, &status) != 0) return std::unexpected(system_text("cannot be looked at"));
    if (status.st_size < static_cast<off_t>(sizeof header)) return false;
    const auto read = read_at(fd, {reinterpret_cast<std::uint8_t*>(&header), sizeof header}, 0);
    if (!read) return std::unexpected(read.error());
    return true;
}

std::expected<int, OpenFailure> open_regular(const std::string& path) {
    // A named pipe would wait for its writer.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return std::unexpected(OpenFailure{system_text("cannot be opened"), errno == ENOENT, true});
    struct stat status{};
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
    close(fd);
    return std::unexpected(S_ISDIR(status.st_mode)
                               ? OpenFailure{"is a folder, not a store; name a file in it", false, true}
                               : OpenFailure{"is not a file on a disk; stores are", false, false});
}

std::expected<NewFile, std::string> NewFile::create(const std::string& path) {
    const std::string target = target_of(path);
    std::string name;
    const int fd = make_file(target, name);
    if (fd < 0) return std::unexpected(system_text("no file can be made in '" + folder_of(target) + "'"));
    return NewFile(fd, name, target);
}

NewFile::NewFile(NewFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), name_(std::move(other.name_)), path_(std::move(other.path_)) {}

NewFile::~NewFile() {
    if (fd_ < 0) return;
    close(fd_);
    remove_name();
}

void NewFile::remove_name() {
    if (!name_.empty()) unlink(name_.c_str());
    name_.clear();
}

std::expected<std::vector<std::string>, std::string> NewFile::commit(Place place) {
    auto lost = tool::take_over_rights(fd_, path_);
    if (!lost) return lost;
    if (fsync(fd_) != 0) return std::unexpected(system_text("cannot be written"));
    {
        const Uninterrupted uninterrupted;
        if (name_.empty()) name_ = give_name(fd_, path_);
        const bool put = !name_.empty() && (place == Place::free ? give_free_name(name_, path_)
                                                                 : rename(name_.c_str(), path_.c_str()) == 0);
        if (!put) {
            std::string why = system_text("cannot be put in its place");
            if (errno == EEXIST) why += "; another file has come there meanwhile, run it again";
            remove_name();
            return std::unexpected(std::move(why));
        }
    }
    close(std::exchange(fd_, -1));
    // The new name lasts when the folder is written as well.
    const int folder = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return lost;
    fsync(folder);
    close(folder);
    return lost;
}

std::expected<int, std::string> NewFile::scratch() const {
    std::string name;
    const int fd = make_file(path_, name);
    if (fd < 0) return std::unexpected(system_text("no file can be made in '" + folder_of(path_) + "'"));
    if (!name.empty()) unlink(name.c_str());
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
