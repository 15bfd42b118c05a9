#include "tools/chainio/run/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <tuple>

#include "tools/chainio/run/files.h"

namespace chainio::run {
namespace {

// An entry's first line: this, the head's fingerprint, the artifact's, and the bytes of the head. The head: a line for
// each source, an empty one, and the launch. The artifact is the rest.
constexpr std::string_view kFirstWord = "chainio-cache-5";
constexpr std::string_view kSuffix = ".spec";
constexpr std::size_t kFingerprint = 32, kMostFirstLine = 128;
constexpr std::size_t kMostSource = 5 << 20, kMostEntry = 64 << 20;

std::string_view take_line(std::string_view& text) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return line;
}

// What is run as native code must be ours alone to write.
bool is_private(int fd) {
    struct stat status{};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
           (status.st_mode & 022) == 0;
}

bool unchanged(std::string_view line) {
    if (line.size() < kFingerprint + 2) return false;
    const auto text = read_whole(std::string(line.substr(kFingerprint + 1)), kMostSource);
    return text && fingerprint(*text) == line.substr(0, kFingerprint);
}

struct Entry {
    Descriptor file;
    std::string artifact_fingerprint, launch;
    std::size_t artifact_at = 0;
};

std::string read_at(int fd, std::size_t size, std::size_t offset) {
    std::string bytes(size, '\0');
    std::size_t filled = 0;
    while (filled < size) {
        const ssize_t n = ::pread(fd, bytes.data() + filled, size - filled, static_cast<off_t>(offset + filled));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        filled += static_cast<std::size_t>(n);
    }
    bytes.resize(filled);
    return bytes;
}

// The folder itself is the user's alone. Returns the last error, or 0.
int make_folders(const std::string& folder) {
    for (std::size_t end = folder.find('/', 1); end != std::string::npos; end = folder.find('/', end + 1))
        ::mkdir(folder.substr(0, end).c_str(), 0777);
    return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

std::string cannot_write(const std::string& folder, int error) {
    return "cannot write in " + folder + " (" + std::strerror(error) + ")";
}

std::string_view take_word(std::string_view& line) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    return word;
}

// An entry whose head is whole, and whose sources are what they were.
std::optional<Entry> entry_at(const std::string& path) {
    Entry entry;
    entry.file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!entry.file || !is_private(entry.file.get())) return std::nullopt;
    const std::string begin = read_at(entry.file.get(), kMostFirstLine, 0);
    std::string_view line = std::string_view(begin).substr(0, begin.find('\n'));
    const std::size_t head_at = line.size() + 1;
    if (take_word(line) != kFirstWord) return std::nullopt;
    const std::string head_fingerprint(take_word(line));
    entry.artifact_fingerprint = take_word(line);
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size);
    if (error != std::errc{} || size > kMostEntry) return std::nullopt;
    const std::string head = read_at(entry.file.get(), size, head_at);
    if (fingerprint(head) != head_fingerprint) return std::nullopt;
    entry.artifact_at = head_at + size;
    std::string_view rest = head;
    for (std::string_view source = take_line(rest); !source.empty(); source = take_line(rest))
        if (!unchanged(source)) return std::nullopt;
    entry.launch = rest;
    return entry;
}

}  // namespace

Cache Cache::of_user() {
    const char* base = std::getenv("XDG_CACHE_HOME");
    if (base != nullptr && base[0] == '/') return Cache(std::string(base) + "/chainio");
    const char* home = std::getenv("HOME");
    // A user without a home, as many that services run as, is not to get one.
    if (home != nullptr && home[0] == '/' && ::access(home, F_OK) == 0)
        return Cache(std::string(home) + "/.cache/chainio");
    return Cache({}, "HOME and XDG_CACHE_HOME name no folder");
}

std::string Cache::path_of(const std::string& key) const {
    return folder_ + "/" + fingerprint(key) + std::string(kSuffix);
}

std::optional<std::string> Cache::find_launch(const std::string& key) const {
    if (folder_.empty()) return std::nullopt;
    auto entry = entry_at(path_of(key));
    if (!entry) return std::nullopt;
    ::futimens(entry->file.get(), nullptr);  // so that the oldest is the one that was not used for longest
    return std::move(entry->launch);
}

std::optional<std::string> Cache::find_artifact(const std::string& key) const {
    if (folder_.empty()) return std::nullopt;
    auto entry = entry_at(path_of(key));
    struct stat status{};
    if (!entry || ::fstat(entry->file.get(), &status) != 0) return std::nullopt;
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size <= entry->artifact_at || size > kMostEntry) return std::nullopt;
    std::string artifact = read_at(entry->file.get(), size - entry->artifact_at, entry->artifact_at);
    if (fingerprint(artifact) != entry->artifact_fingerprint) return std::nullopt;
    ::futimens(entry->file.get(), nullptr);
    return artifact;
}

std::string Cache::keep(const std::string& key, const std::vector<CachedSource>& sources, const Kept& what) const {
    if (folder_.empty()) return why_none_;
    if (const int error = make_folders(folder_); error != 0) return cannot_write(folder_, error);
    std::string head;
    for (const CachedSource& source : sources) head += source.fingerprint + " " + source.path + "\n";
    head += "\n" + what.launch;
    const std::string first = std::string(kFirstWord) + " " + fingerprint(head) + " " + fingerprint(what.artifact) +
                              " " + std::to_string(head.size()) + "\n";
    std::string temporary = folder_ + "/new.XXXXXX";
    const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (!file) return cannot_write(folder_, errno);
    const bool written =
        write_whole(file.get(), first) && write_whole(file.get(), head) && write_whole(file.get(), what.artifact);
    if (!written || ::rename(temporary.c_str(), path_of(key).c_str()) != 0) {
        std::string why = cannot_write(folder_, errno);
        ::unlink(temporary.c_str());
        return why;
    }
    drop_oldest();
    return {};
}

void Cache::drop_oldest() const {
    std::vector<std::tuple<time_t, long, std::string>> entries;  // by when they were last used
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), ::closedir);
    for (const dirent* each = nullptr; folder != nullptr && (each = ::readdir(folder.get())) != nullptr;) {
        const std::string path = folder_ + "/" + each->d_name;
        struct stat status{};
        if (!path.ends_with(kSuffix) || ::stat(path.c_str(), &status) != 0) continue;
        entries.emplace_back(status.st_mtim.tv_sec, status.st_mtim.tv_nsec, path);
    }
    if (entries.size() <= kMostEntries) return;
    std::ranges::sort(entries);
    for (std::size_t i = 0; i + kMostEntries < entries.size(); i++) ::unlink(std::get<2>(entries[i]).c_str());
}

}  // namespace chainio::run
