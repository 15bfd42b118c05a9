#include "runtime/shadow/succession.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "runtime/probe/last_part.h"
#include "runtime/shadow/clock.h"

namespace chainio::shadow {
namespace {

constexpr std::size_t kMostParents = 16;
constexpr std::uint64_t kGoodFor = 100'000'000;        // ns until folders that come and go are looked at again
constexpr std::uint64_t kCrowdedFor = 10'000'000'000;  // ns until that is done where they were too many to look at

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The run of digits at the begin, without leading zeros; `text` is then what lies behind it.
std::string_view take_number(std::string_view& text) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::size_t begin = std::min(text.find_first_not_of('0'), end);
    const std::string_view number = text.substr(begin, end - begin);
    text.remove_prefix(end);
    return number;
}

std::string_view folder_of(std::string_view path) { return path.substr(0, std::min(path.rfind('/'), path.size())); }

std::uint64_t change_of(const std::string& folder) {
    struct stat info{};
    if (stat(folder.c_str(), &info) != 0) return 0;
    return static_cast<std::uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(info.st_mtim.tv_nsec);
}

// As files are: without a new access time where that is allowed.
DIR* open_folder(const std::string& path) {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    int fd = open(path.c_str(), kFlags | O_NOATIME);
    if (fd < 0 && errno == EPERM) fd = open(path.c_str(), kFlags);
    DIR* directory = fd < 0 ? nullptr : fdopendir(fd);
    if (directory == nullptr && fd >= 0) close(fd);
    return directory;
}

// Nothing where there is more than one may look at.
std::optional<std::vector<std::string>> read_folders(const std::string& parent) {
    std::vector<std::string> folders;
    DIR* directory = open_folder(parent);
    if (directory == nullptr) return folders;
    bool crowded = false;
    std::size_t entries = 0;
    for (const dirent* entry; !crowded && (entry = readdir(directory)) != nullptr; entries++) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') folders.emplace_back(entry->d_name);
        crowded = folders.size() > Succession::kMostFolders || entries >= Succession::kMostEntries;
    }
    closedir(directory);
    if (crowded) return std::nullopt;
    std::ranges::sort(folders, comes_before);
    return folders;
}

// Where it is among them; their number: nowhere.
std::size_t place_of(const std::vector<std::string>& folders, std::string_view name) {
    const auto found = std::ranges::lower_bound(folders, name, comes_before);
    const bool is_there = found != folders.end() && *found == name;
    return is_there ? static_cast<std::size_t>(found - folders.begin()) : folders.size();
}

}  // namespace

bool comes_before(std::string_view name, std::string_view other) {
    std::string_view left = name, right = other;
    while (!left.empty() && !right.empty()) {
        if (is_digit(left[0]) && is_digit(right[0])) {
            const std::string_view first = take_number(left), second = take_number(right);
            if (first.size() != second.size()) return first.size() < second.size();
            if (first != second) return first < second;
        } else {
            if (left[0] != right[0]) return static_cast<unsigned char>(left[0]) < static_cast<unsigned char>(right[0]);
            left.remove_prefix(1);
            right.remove_prefix(1);
        }
    }
    if (left.empty() != right.empty()) return left.empty();
    return name < other;  // alike but for leading zeros
}

const std::vector<std::string>& Succession::folders_of(const std::string& parent, std::uint64_t now_ns) {
    if (parents_.size() >= kMostParents && !parents_.contains(parent)) parents_.clear();
    const auto [at, is_new] = parents_.try_emplace(parent);
    Parent& known = at->second;
    if (!is_new && elapsed_ns(known.read_ns, now_ns) < (known.crowded ? kCrowdedFor : kGoodFor)) return known.folders;
    known.read_ns = now_ns;
    const std::uint64_t changed = change_of(parent);
    if (is_new || changed != known.changed) {
        auto folders = read_folders(parent);
        known.crowded = !folders;
        known.folders = std::move(folders).value_or(std::vector<std::string>{});
    }
    known.changed = changed;
    return known.folders;
}

// Whether a thread that has come so many folders on will go as many on.
bool Succession::goes_on(Thread& thread, std::size_t step) {
    const std::size_t before = std::exchange(thread.step, step);
    if (step == 0 || step > kLongestStep) return false;
    if (step != 1 && step != before && step != step_) return false;
    step_ = step;
    return true;
}

// Where it goes from there is known when it has come from a folder as far before this one as it is wont to.
void Succession::goes_to(Thread& thread, std::string_view folder, std::uint64_t now_ns) {
    thread.next.clear();
    const std::string before = std::exchange(thread.folder, std::string(folder));
    const std::string parent(folder_of(folder));
    const bool stays = !parent.empty() && folder_of(before) == parent;
    const bool has_begun = std::exchange(thread.begins, true);
    if (!stays) thread.step = 0;
    if (parent.empty() || (!stays && went_on_ < kBelieved)) return;
    const auto& folders = folders_of(parent, now_ns);
    const std::size_t here = place_of(folders, probe::last_part(folder));
    if (here == folders.size()) return;
    const std::size_t from = stays ? place_of(folders, probe::last_part(before)) : here;
    const std::size_t step = from < here ? here - from : 0;
    if (stays && has_begun) went_on_ = step == 1 ? std::min(went_on_ + 1, kBelieved) : 0;
    const bool known = goes_on(thread, step);
    thread.begins = !known;
    const std::size_t stride = known ? step : 1;
    for (std::size_t next = here + stride; next < folders.size() && thread.next.size() < kAhead; next += stride)
        thread.next.push_back(parent + '/' + folders[next]);
}

std::vector<std::string> Succession::after(std::uint32_t thread, std::string_view path, bool scans,
                                           std::uint64_t now_ns) {
    Thread& walks = threads_[thread % threads_.size()];
    const std::string_view folder = folder_of(path);
    if (folder != walks.folder) goes_to(walks, folder, now_ns);
    std::vector<std::string> files;
    if (walks.begins && (!scans || went_on_ < kBelieved)) return files;
    for (const std::string& next : walks.next) files.push_back(next + '/' + std::string(probe::last_part(path)));
    return files;
}

}  // namespace chainio::shadow
