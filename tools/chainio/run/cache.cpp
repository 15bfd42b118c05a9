#include "tools/chainio/run/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "tools/chainio/run/files.h"

namespace chainio::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstWord = "chainio-cache-2 ";
constexpr std::string_view kLaunch = "launch and artifact ";  // the bytes of the first; both follow the line
constexpr std::string_view kSuffix = ".spec";
constexpr std::size_t kFingerprint = 32;
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

// What an entry's bytes hold, once everything about it has been found right.
std::optional<Kept> kept_in(std::string_view entry) {
    const std::string_view first = take_line(entry);
    if (!first.starts_with(kFirstWord) || first.substr(kFirstWord.size()) != fingerprint(entry)) return std::nullopt;
    while (!entry.empty()) {
        const std::string_view line = take_line(entry);
        if (line.starts_with(kLaunch)) {
            std::size_t launch = 0;
            const std::string_view size = line.substr(kLaunch.size());
            const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), launch);
            if (error != std::errc{} || launch > entry.size()) return std::nullopt;
            return Kept{std::string(entry.substr(0, launch)), std::string(entry.substr(launch))};
        }
        if (!unchanged(line)) return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace

Cache Cache::of_user() {
    const char* base = std::getenv("XDG_CACHE_HOME");
    if (base != nullptr && base[0] == '/') return Cache(std::string(base) + "/chainio");
    const char* home = std::getenv("HOME");
    if (home != nullptr && home[0] == '/') return Cache(std::string(home) + "/.cache/chainio");
    return Cache({});
}

std::string Cache::path_of(const std::string& key) const {
    return folder_ + "/" + fingerprint(key) + std::string(kSuffix);
}

std::optional<Kept> Cache::find(const std::string& key) const {
    if (folder_.empty()) return std::nullopt;
    const Descriptor file(::open(path_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file || !is_private(file.get())) return std::nullopt;
    const auto entry = read_whole(file.get(), kMostEntry);
    if (!entry) return std::nullopt;
    auto kept = kept_in(*entry);
    if (kept) ::futimens(file.get(), nullptr);  // so that the oldest is the one that was not used for longest
    return kept;
}

void Cache::keep(const std::string& key, const std::vector<CachedSource>& sources, const Kept& what) const {
    if (folder_.empty()) return;
    std::error_code error;
    fs::create_directories(fs::path(folder_).parent_path(), error);
    ::mkdir(folder_.c_str(), 0700);
    std::string rest;
    for (const CachedSource& source : sources) rest += source.fingerprint + " " + source.path + "\n";
    rest += fmt::format("{}{}\n", kLaunch, what.launch.size());
    rest += what.launch;
    rest += what.artifact;
    std::string temporary = folder_ + "/new.XXXXXX";
    const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (!file) return;
    const bool written =
        write_whole(file.get(), std::string(kFirstWord) + fingerprint(rest) + "\n") && write_whole(file.get(), rest);
    if (!written || ::rename(temporary.c_str(), path_of(key).c_str()) != 0) ::unlink(temporary.c_str());
    drop_oldest();
}

void Cache::drop_oldest() const {
    std::vector<std::pair<fs::file_time_type, fs::path>> entries;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
        if (entry.path().extension() == kSuffix) entries.emplace_back(entry.last_write_time(error), entry.path());
    }
    if (entries.size() <= kMostEntries) return;
    std::ranges::sort(entries);
    for (std::size_t i = 0; i + kMostEntries < entries.size(); i++) fs::remove(entries[i].second, error);
}

}  // namespace chainio::run
