// How files are opened: what a path leads to is looked at before.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "runtime/engine/files.h"
#include "runtime/shadow/files.h"

namespace chainio::shadow {
namespace {

constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

// The name of a descriptor in /proc/self/fd.
std::array<char, 16> number_of(int fd) {
    std::array<char, 16> name{};
    std::to_chars(name.data(), name.data() + name.size() - 1, fd);
    return name;
}

FileRefusal refusal_of(int error) {
    return error == EMFILE || error == ENFILE ? FileRefusal::no_descriptors : FileRefusal::cannot_open;
}

}  // namespace

// Whoever has given up root can make a link to what only root may read, and call it as a class does.
bool Files::may_be_of(std::uint32_t file_class, int fd) const {
    if (user_ != 0) return true;
    char name[4096];
    const ssize_t length = own_fds_ >= 0 ? readlinkat(own_fds_, number_of(fd).data(), name, sizeof name) : -1;
    if (length <= 0 || static_cast<std::size_t>(length) >= sizeof name) return false;
    name[length] = 0;
    return matches(file_class, name);
}

std::expected<int, FileRefusal> Files::open(ShadowFile& file) {
    if (file.fd >= 0) return file.fd;
    if (file.refused) return std::unexpected(*file.refused);
    close_some();
    const auto made = open_regular(AT_FDCWD, file.path.c_str(), 0, file.file_class);
    const bool replaced = made && (made->info.st_dev != file.device || made->info.st_ino != file.inode);
    if (replaced) close(made->fd);
    if (!made || replaced) {
        const FileRefusal why = made ? FileRefusal::replaced : made.error();
        if (why != FileRefusal::no_descriptors) file.refused = why;  // there may be some the next time
        return std::unexpected(why);
    }
    has_opened(file, made->fd, static_cast<std::uint64_t>(made->info.st_size));
    return made->fd;
}

std::expected<Files::Opened, FileRefusal> Files::open_regular(int at, const char* path, std::uint64_t resolve,
                                                              std::uint32_t file_class) {
    while (true) {
        auto made = open_regular_now(at, path, resolve, file_class);
        if (made || made.error() != FileRefusal::no_descriptors || !close_oldest()) return made;
    }
}

// What the path leads to is looked at before it is opened: opening a pipe lets go of who waits at its other end, and a
// device may do anything. A look at the path and an opening after it would not do, as it could lead elsewhere by then.
std::expected<Files::Opened, FileRefusal> Files::open_regular_now(int at, const char* path, std::uint64_t resolve,
                                                                  std::uint32_t file_class) {
    const auto open_as = [&](int flags) {
        if (resolve == 0) return ::openat(at, path, flags);
        open_how how{};
        how.flags = static_cast<std::uint64_t>(flags);
        how.resolve = resolve;
        return static_cast<int>(syscall(SYS_openat2, at, path, &how, sizeof how));
    };
    if (may_be_open_ != nullptr) may_be_open_->store(1);
    const int place = open_as(O_PATH | O_CLOEXEC);
    if (place < 0) {
        const bool left = resolve != 0 && (errno == EXDEV || errno == ELOOP);
        return std::unexpected(left ? FileRefusal::leaves_root : refusal_of(errno));
    }
    Opened made;
    FileRefusal why = FileRefusal::cannot_open;
    if (fstat(place, &made.info) == 0) {
        if (!S_ISREG(made.info.st_mode)) {
            why = FileRefusal::not_regular;
        } else if (devices_.made_when_read(made.info.st_dev, place)) {
            why = FileRefusal::made_when_read;
        } else if (resolve == 0 && !may_be_of(file_class, place)) {
            why = own_fds_ >= 0 ? FileRefusal::elsewhere : FileRefusal::no_proc;
        } else {
            made.fd = own_fds_ >= 0 ? reopen(place, made.info.st_uid) : open_as(kOpenFlags);
            if (made.fd < 0) why = refusal_of(errno);
            if (made.fd >= 0) engine::let_reads_wait(made.fd);
            if (own_fds_ < 0 && made.fd >= 0) fstat(made.fd, &made.info);  // the path may have changed
        }
    }
    close(place);
    if (made.fd < 0) return std::unexpected(why);
    return made;
}

// What `place` stands for; without a trace in its access time where that is allowed, as to its owner.
int Files::reopen(int place, std::uint32_t owner) {
    const auto name = number_of(place);
    const bool own = owner == user_;
    if (own || leaves_times_) {
        const int fd = ::openat(own_fds_, name.data(), kOpenFlags | O_NOATIME);
        if (fd >= 0 || errno != EPERM) return fd;
        if (!own) leaves_times_ = false;
    }
    return ::openat(own_fds_, name.data(), kOpenFlags);
}

std::expected<int, FileRefusal> Files::open_root(const std::string& root) {
    while (true) {
        const int at = ::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (at >= 0) return at;
        const FileRefusal why = refusal_of(errno);
        if (why != FileRefusal::no_descriptors || !close_oldest()) return std::unexpected(why);
    }
}

// The root is opened anew each time: it may be another folder by now, and an open one holds its file system.
std::expected<Files::Opened, FileRefusal> Files::open_beneath(const std::string& root, const std::string& relative,
                                                              std::uint32_t file_class) {
    if (may_be_open_ != nullptr) may_be_open_->store(1);
    const auto at = open_root(root);
    if (!at) return std::unexpected(at.error());
    const auto made = open_regular(*at, relative.c_str(), RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS, file_class);
    close(*at);
    return made;
}

}  // namespace chainio::shadow
