#define FUSE_USE_VERSION 312
#include "tools/cloud_volume/volume.h"

#include <dirent.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/cloud_volume/nodes.h"

namespace chainio::cloud {

class Volume {
  public:
    Volume(const std::string& source, const PaceOptions& options)
        : root(::open(source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), pace(options) {
        if (root < 0) throw std::runtime_error(source + " cannot be opened: " + std::strerror(errno));
    }
    ~Volume() { ::close(root); }
    Volume(const Volume&) = delete;

    int root;
    Nodes nodes;
    Pace pace;
};

namespace {

constexpr double kKeep = 3600;  // seconds that the kernel may keep names and attributes: nobody else changes the source
constexpr fuse_ino_t kProbeNode = ~std::uint64_t{0};

Volume& volume_of(fuse_req_t request) { return *static_cast<Volume*>(fuse_req_userdata(request)); }

struct stat probe_attributes() {
    struct stat st = {};
    st.st_ino = kProbeNode;
    st.st_mode = S_IFREG | 0444;
    st.st_nlink = 1;
    st.st_size = kProbeBytes;
    return st;
}

int attributes(Volume& volume, fuse_ino_t node, struct stat& st) {
    if (node == kProbeNode) return st = probe_attributes(), 0;
    if (const int kept = volume.nodes.kept(node); kept >= 0) return ::fstat(kept, &st) == 0 ? 0 : errno;
    return ::fstatat(volume.root, volume.nodes.path(node).c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

void reply(fuse_req_t request, long result) { fuse_reply_err(request, result < 0 ? errno : 0); }

bool make_entry(Volume& volume, const std::string& path, fuse_entry_param& entry) {
    entry = {};
    if (::fstatat(volume.root, path.c_str(), &entry.attr, AT_SYMLINK_NOFOLLOW) != 0) return false;
    entry.ino = volume.nodes.looked_up(path);
    entry.attr_timeout = entry.entry_timeout = kKeep;
    return true;
}

void reply_entry(fuse_req_t request, Volume& volume, const std::string& path) {
    fuse_entry_param entry;
    if (make_entry(volume, path, entry)) {
        fuse_reply_entry(request, &entry);
    } else {
        fuse_reply_err(request, errno);
    }
}

void on_init(void*, fuse_conn_info* connection) {
    connection->max_readahead = kReadAhead;
    connection->max_background = 512;  // as many reads at once as anyone has
    connection->congestion_threshold = 500;
    connection->want |= connection->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS);
    connection->want &= ~FUSE_CAP_ATOMIC_O_TRUNC;  // it would come with the openings, of which nothing is heard
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    Volume& volume = volume_of(request);
    if (parent == FUSE_ROOT_ID && std::strcmp(name, kProbe) == 0) {
        fuse_entry_param entry = {};
        entry.ino = kProbeNode;
        entry.attr = probe_attributes();
        fuse_reply_entry(request, &entry);
        return;
    }
    reply_entry(request, volume, volume.nodes.below(parent, name));
}

void on_forget(fuse_req_t request, fuse_ino_t node, std::uint64_t times) {
    volume_of(request).nodes.forget(node, times);
    fuse_reply_none(request);
}

void on_getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
    struct stat st = {};
    const int error = attributes(volume_of(request), node, st);
    if (error == 0) {
        fuse_reply_attr(request, &st, kKeep);
    } else {
        fuse_reply_err(request, error);
    }
}

// A link is the node itself: the kernel has followed those that are to be followed.
int open_below(Volume& volume, const std::string& path, int flags, mode_t mode = 0) {
    return ::openat(volume.root, path.c_str(), (flags & ~O_DIRECT) | O_NOFOLLOW | O_CLOEXEC, mode);
}

// A file for one request: by the descriptor that it was created with, the one that was kept when its name went, or its
// name.
class File {
  public:
    File(Volume& volume, fuse_ino_t node, const fuse_file_info* info, int flags)
        : fd_(info && info->fh != 0 ? static_cast<int>(info->fh) : volume.nodes.kept(node)) {
        // It may be given another name just now.
        for (int tries = 0; fd_ < 0 && tries < kTries; tries++) {
            fd_ = own_ = open_below(volume, volume.nodes.path(node), flags);
            if (fd_ < 0) fd_ = volume.nodes.kept(node);
        }
    }
    ~File() {
        if (own_ >= 0) ::close(own_);
    }
    File(const File&) = delete;
    int fd() const { return fd_; }

  private:
    static constexpr int kTries = 3;
    int fd_, own_ = -1;
};

// Of a node that is open, by a descriptor that may be for reading alone, or for nothing (O_PATH). The name in /proc is
// that of the very node, a link too.
bool change(int fd, const struct stat& wanted, int what) {
    const std::string name = "/proc/self/fd/" + std::to_string(fd);
    if (what & FUSE_SET_ATTR_MODE && ::chmod(name.c_str(), wanted.st_mode & 07777) != 0) return false;
    if (what & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
        const uid_t uid = what & FUSE_SET_ATTR_UID ? wanted.st_uid : static_cast<uid_t>(-1);
        const gid_t gid = what & FUSE_SET_ATTR_GID ? wanted.st_gid : static_cast<gid_t>(-1);
        if (::chown(name.c_str(), uid, gid) != 0) return false;
    }
    // One that the file was created with may write what its permissions forbid.
    if (what & FUSE_SET_ATTR_SIZE && ::ftruncate(fd, wanted.st_size) != 0 &&
        ::truncate(name.c_str(), wanted.st_size) != 0)
        return false;
    if (!(what & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))) return true;
    timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
    if (what & FUSE_SET_ATTR_ATIME) times[0] = wanted.st_atim;
    if (what & FUSE_SET_ATTR_MTIME) times[1] = wanted.st_mtim;
    return ::utimensat(AT_FDCWD, name.c_str(), times, 0) == 0;
}

void on_setattr(fuse_req_t request, fuse_ino_t node, struct stat* wanted, int what, fuse_file_info* info) {
    const File file(volume_of(request), node, info, O_PATH);
    if (file.fd() < 0 || !change(file.fd(), *wanted, what)) return static_cast<void>(fuse_reply_err(request, errno));
    on_getattr(request, node, nullptr);
}

// Said once, the kernel opens files by itself from then on: names and attributes of a real volume's files are in
// memory, and whoever opens one waits for nobody.
void on_open(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, ENOSYS); }

void on_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
    Volume& volume = volume_of(request);
    const std::string path = volume.nodes.below(parent, name);
    const int fd = open_below(volume, path, O_RDWR | O_CREAT | (info->flags & (O_EXCL | O_TRUNC)), mode);
    fuse_entry_param entry;
    if (fd < 0 || !make_entry(volume, path, entry)) return static_cast<void>(fuse_reply_err(request, errno));
    info->keep_cache = 1;
    info->fh = static_cast<std::uint64_t>(fd);
    fuse_reply_create(request, &entry, info);
}

// The bytes are fetched at once and handed over when the volume would have them.
void on_read(fuse_req_t request, fuse_ino_t node, std::size_t size, off_t offset, fuse_file_info* info) {
    const std::int64_t arrived = now_ns();
    auto bytes = std::make_shared<std::vector<char>>(size);
    ssize_t got = 0;
    if (node == kProbeNode) {
        got = static_cast<ssize_t>(std::clamp<off_t>(kProbeBytes - offset, 0, static_cast<off_t>(size)));
    } else {
        const File file(volume_of(request), node, info, O_RDONLY);
        got = ::pread(file.fd(), bytes->data(), size, offset);
    }
    const int error = got < 0 ? errno : 0;
    volume_of(request).pace.later(arrived, [request, bytes, got, error] {
        if (error != 0) {
            fuse_reply_err(request, error);
        } else {
            fuse_reply_buf(request, bytes->data(), static_cast<std::size_t>(got));
        }
    });
}

void on_write(fuse_req_t request, fuse_ino_t node, const char* bytes, std::size_t size, off_t offset,
              fuse_file_info* info) {
    const File file(volume_of(request), node, info, O_RDWR);
    const ssize_t done = ::pwrite(file.fd(), bytes, size, offset);
    if (done < 0) {
        fuse_reply_err(request, errno);
    } else {
        fuse_reply_write(request, static_cast<std::size_t>(done));
    }
}

void on_release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    if (info->fh != 0) ::close(static_cast<int>(info->fh));
    fuse_reply_err(request, 0);
}

void on_fsync(fuse_req_t request, fuse_ino_t node, int data_only, fuse_file_info* info) {
    const File file(volume_of(request), node, info, O_RDONLY);
    reply(request, data_only ? ::fdatasync(file.fd()) : ::fsync(file.fd()));
}

// A listing is put together when its folder is opened, as the kernel's buffer takes it.
void on_opendir(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
    Volume& volume = volume_of(request);
    const int fd = open_below(volume, volume.nodes.path(node), O_RDONLY | O_DIRECTORY);
    DIR* folder = fd < 0 ? nullptr : ::fdopendir(fd);
    if (!folder) return static_cast<void>(fuse_reply_err(request, errno));
    auto listing = std::make_unique<std::string>();
    while (const dirent* entry = ::readdir(folder)) {
        struct stat st = {};
        st.st_ino = entry->d_ino;
        st.st_mode = static_cast<mode_t>(entry->d_type) << 12;
        const std::size_t begin = listing->size(),
                          size = fuse_add_direntry(request, nullptr, 0, entry->d_name, nullptr, 0);
        listing->resize(begin + size);
        fuse_add_direntry(request, listing->data() + begin, size, entry->d_name, &st, static_cast<off_t>(begin + size));
    }
    ::closedir(folder);
    info->fh = reinterpret_cast<std::uint64_t>(listing.release());
    fuse_reply_open(request, info);
}

void on_readdir(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
    const auto& listing = *reinterpret_cast<const std::string*>(info->fh);
    const auto at = std::min(static_cast<std::size_t>(offset), listing.size());
    fuse_reply_buf(request, listing.data() + at, std::min(size, listing.size() - at));
}

void on_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    const std::unique_ptr<std::string> listing(reinterpret_cast<std::string*>(info->fh));
    fuse_reply_err(request, 0);
}

void on_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
    Volume& volume = volume_of(request);
    const std::string path = volume.nodes.below(parent, name);
    if (::mkdirat(volume.root, path.c_str(), mode) != 0) return static_cast<void>(fuse_reply_err(request, errno));
    reply_entry(request, volume, path);
}

// Whoever has the file open goes on with it.
void keep_open(Volume& volume, const std::string& path) {
    if (!volume.nodes.knows(path)) return;
    int fd = open_below(volume, path, O_RDWR | O_NONBLOCK);
    if (fd < 0) fd = open_below(volume, path, O_RDONLY | O_NONBLOCK);
    if (fd >= 0) volume.nodes.keep(path, fd);
}

void remove_at(fuse_req_t request, fuse_ino_t parent, const char* name, int flags) {
    Volume& volume = volume_of(request);
    const std::string path = volume.nodes.below(parent, name);
    if (flags == 0) keep_open(volume, path);
    const int result = ::unlinkat(volume.root, path.c_str(), flags);
    if (result == 0) volume.nodes.removed(path);
    reply(request, result);
}

void on_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) { remove_at(request, parent, name, 0); }
void on_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
    remove_at(request, parent, name, AT_REMOVEDIR);
}

void on_rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
               unsigned flags) {
    Volume& volume = volume_of(request);
    const std::string from = volume.nodes.below(parent, name), to = volume.nodes.below(new_parent, new_name);
    if (flags != 0) return static_cast<void>(fuse_reply_err(request, EINVAL));
    if (from != to) keep_open(volume, to);
    const int result = ::renameat(volume.root, from.c_str(), volume.root, to.c_str());
    if (result == 0) volume.nodes.moved(from, to);
    reply(request, result);
}

void on_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
    Volume& volume = volume_of(request);
    const std::string path = volume.nodes.below(parent, name);
    if (::symlinkat(target, volume.root, path.c_str()) != 0) return static_cast<void>(fuse_reply_err(request, errno));
    reply_entry(request, volume, path);
}

void on_readlink(fuse_req_t request, fuse_ino_t node) {
    Volume& volume = volume_of(request);
    char target[4097] = {};
    if (::readlinkat(volume.root, volume.nodes.path(node).c_str(), target, sizeof target - 1) < 0) {
        fuse_reply_err(request, errno);
    } else {
        fuse_reply_readlink(request, target);
    }
}

void on_statfs(fuse_req_t request, fuse_ino_t) {
    struct statvfs st = {};
    if (::fstatvfs(volume_of(request).root, &st) != 0) return static_cast<void>(fuse_reply_err(request, errno));
    fuse_reply_statfs(request, &st);
}

fuse_lowlevel_ops make_operations() {
    fuse_lowlevel_ops ops = {};
    ops.init = on_init;
    ops.lookup = on_lookup;
    ops.forget = on_forget;
    ops.getattr = on_getattr;
    ops.setattr = on_setattr;
    ops.open = on_open;
    ops.create = on_create;
    ops.read = on_read;
    ops.write = on_write;
    ops.release = on_release;
    ops.fsync = on_fsync;
    ops.opendir = on_opendir;
    ops.readdir = on_readdir;
    ops.releasedir = on_releasedir;
    ops.mkdir = on_mkdir;
    ops.unlink = on_unlink;
    ops.rmdir = on_rmdir;
    ops.rename = on_rename;
    ops.symlink = on_symlink;
    ops.readlink = on_readlink;
    ops.statfs = on_statfs;
    return ops;
}

}  // namespace

Volume* make_volume(const std::string& source, const PaceOptions& options) { return new Volume(source, options); }
void end_volume(Volume* volume) { delete volume; }
Pace& pace_of(Volume& volume) { return volume.pace; }

const fuse_lowlevel_ops& operations() {
    static const fuse_lowlevel_ops ops = make_operations();
    return ops;
}

}  // namespace chainio::cloud
