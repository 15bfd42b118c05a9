#include "runtime/shadow/region.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/shim/served.h"

namespace chainio::shadow {
namespace {

constexpr char kPrefix[] = "chainio-run.";
constexpr char kFile[] = "/region";

// The process that a run's directory belongs to; 0 when the name is not one of ours.
pid_t owner_of(const std::string& name) {
    const std::size_t start = sizeof kPrefix - 1;
    if (!name.starts_with(kPrefix)) return 0;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data() + start, name.data() + name.size(), pid);
    return error == std::errc{} && *end == '.' && pid > 0 ? pid : 0;
}

void remove_run(const std::string& directory) {
    unlink((directory + kFile).c_str());
    unlink((directory + shim::kServedFile).c_str());
    rmdir(directory.c_str());
}

void remove_left_overs(const std::string& base) {
    for (const std::string& directory : run_directories_in(base)) {
        struct stat info{};
        const pid_t owner = owner_of(directory.substr(directory.rfind('/') + 1));
        // A directory of another user may belong to a process that this one cannot see.
        if (lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
        if (kill(owner, 0) != 0 && errno == ESRCH) remove_run(directory);
    }
}

}  // namespace

std::vector<std::string> run_bases() {
    std::vector<std::string> bases;
    if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr && own[0] == '/') bases.emplace_back(own);
    bases.emplace_back("/dev/shm");
    bases.emplace_back("/tmp");
    return bases;
}

std::vector<std::string> run_directories_in(const std::string& base) {
    std::vector<std::string> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(base.c_str()), closedir);
    for (const dirent* entry = nullptr; entries != nullptr && (entry = readdir(entries.get())) != nullptr;) {
        const std::string name = entry->d_name;
        if (owner_of(name) != 0) found.push_back(base + "/" + name);
    }
    return found;
}

RegionFile::RegionFile(RegionFile&& other) noexcept
    : directory_(std::move(other.directory_)),
      path_(std::move(other.path_)),
      region_(std::exchange(other.region_, nullptr)) {
    other.directory_.clear();
}

RegionFile::~RegionFile() {
    if (region_ != nullptr) {
        region_->server = 0;
        munmap(region_, shim::kRegionBytes);
    }
    if (!directory_.empty()) remove_run(directory_);
}

std::expected<RegionFile, std::string> RegionFile::create_in(const std::string& base) {
    const auto fail = [&](const std::string& what) {
        return std::unexpected(base + ": " + what + ": " + std::strerror(errno));
    };
    struct statvfs room{};
    if (statvfs(base.c_str(), &room) != 0) return fail("cannot be looked at");
    // A page that finds no room when it is first touched would end the program that touches it.
    if (room.f_bavail * room.f_frsize < 2 * shim::kRegionBytes) {
        errno = ENOSPC;
        return fail("less than " + std::to_string(2 * shim::kRegionBytes >> 20) + " MiB are free");
    }
    RegionFile made;
    std::string directory = base + "/" + kPrefix + std::to_string(getpid()) + ".XXXXXX";
    if (mkdtemp(directory.data()) == nullptr) return fail("no directory can be made");
    made.directory_ = directory;
    made.path_ = directory + kFile;
    const int fd = open(made.path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return fail("no file can be made");
    void* at = MAP_FAILED;
    const bool sized = ftruncate(fd, static_cast<off_t>(shim::kRegionBytes)) == 0;
    if (sized) at = mmap(nullptr, shim::kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int error = errno;
    close(fd);
    errno = error;
    if (at == MAP_FAILED) return fail(sized ? "the file cannot be mapped" : "the file cannot be made large enough");
    made.region_ = static_cast<shim::Region*>(at);
    return made;
}

std::expected<RegionFile, std::string> RegionFile::adopt(const std::string& path) {
    RegionFile made;
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat status{};
    void* at = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(shim::kRegionBytes))
        at = mmap(nullptr, shim::kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (at == MAP_FAILED) return std::unexpected(path + ": cannot be mapped");
    const auto* region = static_cast<const shim::Region*>(at);
    if (region->magic != shim::kMagic || region->version != shim::kVersion ||
        region->server != static_cast<std::uint32_t>(getpid())) {
        munmap(at, shim::kRegionBytes);
        return std::unexpected(path + ": is no region of this process");
    }
    made.region_ = static_cast<shim::Region*>(at);
    made.path_ = path;
    made.directory_ = path.substr(0, path.rfind('/'));
    return made;
}

std::expected<RegionFile, std::string> RegionFile::create() {
    std::string tried;
    for (const std::string& base : run_bases()) {
        remove_left_overs(base);
        auto made = create_in(base);
        if (made) {
            shim::Region& region = made->get();
            region.version = shim::kVersion;
            region.bytes = static_cast<std::uint32_t>(shim::kRegionBytes);
            region.server = static_cast<std::uint32_t>(getpid());
            region.magic = shim::kMagic;
            return made;
        }
        tried += (tried.empty() ? "" : "; ") + made.error();
    }
    return std::unexpected("the memory that programs share with ChainIO cannot be made (" + tried +
                           "); set XDG_RUNTIME_DIR to a directory of yours in memory");
}

}  // namespace chainio::shadow
