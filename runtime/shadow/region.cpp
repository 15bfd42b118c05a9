#include "runtime/shadow/region.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "runtime/shim/served.h"

namespace chainio::shadow {
namespace {

constexpr char kPrefix[] = "chainio-run.";
constexpr char kFile[] = "/region";
constexpr char kLastBase[] = "/tmp";

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
    unlink((directory + shim::kPlanFile).c_str());
    unlink((directory + shim::kServedFile).c_str());
    unlink((directory + shim::kStepsFile).c_str());
    rmdir(directory.c_str());
}

int open_directory(const std::string& directory) {
    return open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

// Whether a run holds it, be it one that cannot be seen from this PID namespace.
bool in_use(const std::string& directory) {
    const int fd = open_directory(directory);
    if (fd < 0) return false;
    const bool used = flock(fd, LOCK_EX | LOCK_NB) != 0;
    close(fd);
    return used;
}

void remove_left_overs(const std::string& base) {
    for (const std::string& directory : run_directories_in(base)) {
        struct stat info{};
        const pid_t owner = owner_of(directory.substr(directory.rfind('/') + 1));
        // A directory of another user may belong to a process that this one cannot see.
        if (lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
        if (kill(owner, 0) != 0 && errno == ESRCH && !in_use(directory)) remove_run(directory);
    }
}

// Whether the library can have a ring's pages made before it touches them (post.cpp); Linux 5.14.
bool kernel_makes_pages() {
    constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const char here = 0;
    return madvise(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&here) / page * page), page,
                   kPopulateWrite) == 0;
}

// With memory from `first` to `end`: a page that found no room when it is first touched would end who touches it.
bool make_file(const std::string& path, std::size_t bytes, std::size_t first, std::size_t end) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return false;
    int error = ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    if (error == 0) error = posix_fallocate(fd, static_cast<off_t>(first), static_cast<off_t>(end - first));
    close(fd);
    errno = error;
    return error == 0;
}

// The first `bytes` of a file, in the place of what is at `place`.
void* map_file(const std::string& path, std::size_t bytes, bool writable, void* place) {
    const int fd = open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return MAP_FAILED;
    struct stat status{};
    void* at = MAP_FAILED;
    if (fstat(fd, &status) == 0 && status.st_size >= static_cast<off_t>(bytes))
        at = mmap(place, bytes, PROT_READ | (writable ? PROT_WRITE : 0),
                  MAP_SHARED | (place != nullptr ? MAP_FIXED : 0), fd, 0);
    const int error = errno;
    close(fd);
    errno = error;
    return at;
}

std::string beside(const std::string& path, const char* name) { return path.substr(0, path.rfind('/')) + name; }

// Programs that have mapped a region which this process cannot map go on plain.
void end_unmapped(const std::string& path) {
    const int fd = open(beside(path, shim::kPlanFile).c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return;
    constexpr std::uint32_t kNobody = 0;
    (void)pwrite(fd, &kNobody, sizeof kNobody, offsetof(shim::Region, server));
    close(fd);
}

void put_steps(std::string_view steps, const RegionFile& region) {
    shim::Plan& plan = region.get().plan;
    if (steps.empty() || plan.has_steps != 0) return;
    const std::string path = beside(region.path(), shim::kStepsFile);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0500);
    if (fd < 0) return;
    const bool whole = write(fd, steps.data(), steps.size()) == static_cast<ssize_t>(steps.size());
    close(fd);
    plan.has_steps = whole ? 1 : 0;
}

}  // namespace

bool make_region(const std::string& path) {
    const std::size_t end = kernel_makes_pages() ? offsetof(shim::Region, rings) : shim::kRegionBytes;
    return make_file(beside(path, shim::kPlanFile), shim::kPlanBytes, 0, shim::kPlanUses) &&
           make_file(path, shim::kRegionBytes, shim::kPlanBytes, end);
}

void put_beside(std::string_view steps, const RegionFile& region) {
    const shim::Plan& plan = region.get().plan;
    put_steps(steps, region);
    if (std::ranges::any_of(std::span(plan.classes).first(plan.class_count),
                            [](const shim::ClassRule& rule) { return (rule.flags & shim::kImmutable) != 0; }))
        make_file(beside(region.path(), shim::kServedFile), shim::kServedPage, 0, shim::kServedPage);
}

shim::Region* map_region(const std::string& path, bool writable) {
    void* const at = map_file(path, shim::kRegionBytes, writable, nullptr);
    if (at == MAP_FAILED) return nullptr;
    if (map_file(beside(path, shim::kPlanFile), shim::kPlanBytes, writable, at) != MAP_FAILED)
        return static_cast<shim::Region*>(at);
    const int error = errno;
    munmap(at, shim::kRegionBytes);
    errno = error;
    return nullptr;
}

std::vector<std::string> run_bases() {
    std::vector<std::string> bases;
    if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr && own[0] == '/') bases.emplace_back(own);
    bases.emplace_back("/dev/shm");
    bases.emplace_back(kLastBase);
    return bases;
}

void remove_left_overs_in_last_base() { remove_left_overs(kLastBase); }

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
      lock_(std::exchange(other.lock_, -1)),
      region_(std::exchange(other.region_, nullptr)) {
    other.directory_.clear();
}

RegionFile::~RegionFile() {
    if (region_ != nullptr) {
        region_->server = 0;
        munmap(region_, shim::kRegionBytes);
    }
    if (!directory_.empty()) remove_run(directory_);
    if (lock_ >= 0) close(lock_);
}

int RegionFile::hand_on_lock() const {
    fcntl(lock_, F_SETFD, 0);
    return lock_;
}

std::expected<RegionFile, std::string> RegionFile::create_in(const std::string& base) {
    const auto fail = [&](const std::string& what) {
        return std::unexpected(base + ": " + what + ": " + std::strerror(errno));
    };
    struct statvfs room{};
    if (statvfs(base.c_str(), &room) != 0) return fail("cannot be looked at");
    // For rings, too, which get their memory when a thread takes them.
    if (room.f_bavail * room.f_frsize < 2 * shim::kRegionBytes) {
        errno = ENOSPC;
        return fail("less than " + std::to_string(2 * shim::kRegionBytes >> 20) + " MiB are free");
    }
    RegionFile made;
    std::string directory = base + "/" + kPrefix + std::to_string(getpid()) + ".XXXXXX";
    if (mkdtemp(directory.data()) == nullptr) return fail("no directory can be made");
    made.directory_ = directory;
    made.path_ = directory + kFile;
    made.lock_ = open_directory(directory);
    if (made.lock_ < 0 || flock(made.lock_, LOCK_SH) != 0) return fail("the directory cannot be locked");
    if (!make_region(made.path_)) return fail("no file can be made large enough");
    made.region_ = map_region(made.path_, true);
    if (made.region_ == nullptr) return fail("the files cannot be mapped");
    return made;
}

std::expected<RegionFile, std::string> RegionFile::adopt(const std::string& path, int lock) {
    RegionFile made;
    made.lock_ = lock;
    const std::string directory = path.substr(0, path.rfind('/'));
    shim::Region* region = map_region(path, true);
    if (region == nullptr) {
        const int error = errno;
        // What this process has made would stay behind it.
        if (owner_of(directory.substr(directory.rfind('/') + 1)) == getpid()) {
            end_unmapped(path);
            made.directory_ = directory;
        }
        return std::unexpected(path + ": cannot be mapped: " + std::strerror(error) +
                               (error == ENOMEM ? "; a limit of address space (ulimit -v) counts here, too" : ""));
    }
    if (region->magic != shim::kMagic || region->version != shim::kVersion ||
        region->server != static_cast<std::uint32_t>(getpid())) {
        munmap(region, shim::kRegionBytes);
        return std::unexpected(path + ": is no region of this process");
    }
    made.region_ = region;
    made.path_ = path;
    made.directory_ = directory;
    return made;
}

std::string RegionFile::forbidden() {
    rlimit largest{};
    // A file that is made larger than that ends the process (SIGXFSZ).
    if (getrlimit(RLIMIT_FSIZE, &largest) != 0 || largest.rlim_cur >= shim::kRegionBytes) return {};
    return "files may not be as large as the memory that programs share with ChainIO, " +
           std::to_string(shim::kRegionBytes >> 20) + " MiB (ulimit -f)";
}

std::expected<RegionFile, std::string> RegionFile::create() {
    if (std::string why = forbidden(); !why.empty()) return std::unexpected(std::move(why));
    const std::vector<std::string> bases = run_bases();
    // A run with other variables has left it elsewhere.
    for (const std::string& base : bases)
        if (base != kLastBase) remove_left_overs(base);
    std::string tried;
    for (const std::string& base : bases) {
        if (base == kLastBase) remove_left_overs(base);
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
