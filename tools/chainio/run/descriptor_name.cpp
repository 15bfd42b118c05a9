#include "tools/chainio/run/descriptor_name.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <string_view>

#include "tools/chainio/run/files.h"

namespace chainio::run {
namespace {

constexpr std::string_view kStandard[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
constexpr int kMostLinks = 40;  // as many as the kernel follows

int number_of(std::string_view name) {
    int number = -1;
    const auto end = std::from_chars(name.begin(), name.end(), number);
    return end.ptr == name.end() ? number : -1;
}

// By the names that are usual, which mean the same where there is no /proc.
std::optional<int> usual(std::string_view path) {
    int number = 0;
    for (const std::string_view name : kStandard) {
        if (path == name) return number;
        number++;
    }
    for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"})
        if (path.starts_with(folder)) return number_of(path.substr(folder.size()));
    return std::nullopt;
}

// While a folder of /proc is open it has one number.
bool is_own_folder(const std::string& folder) {
    for (const char* own : {"/proc/self/fd", "/proc/thread-self/fd"}) {
        const Descriptor open(::open(own, O_PATH | O_DIRECTORY | O_CLOEXEC));
        struct stat first{}, second{};
        if (!open || ::fstat(open.get(), &first) != 0 || ::stat(folder.c_str(), &second) != 0) continue;
        if (first.st_dev == second.st_dev && first.st_ino == second.st_ino) return true;
    }
    return false;
}

}  // namespace

std::optional<int> descriptor_named(std::string path) {
    for (int links = 0; links <= kMostLinks; links++) {
        if (const auto number = usual(path)) return number;
        const std::size_t name = path.rfind('/') + 1;  // 0 where there is no folder
        const std::string folder = path.substr(0, name);
        if (is_own_folder(folder.empty() ? "." : folder)) return number_of(std::string_view(path).substr(name));
        char link[PATH_MAX];
        const ssize_t length = ::readlink(path.c_str(), link, sizeof link);
        if (length <= 0) return std::nullopt;
        const std::string to(link, static_cast<std::size_t>(length));
        path = to.starts_with('/') ? to : folder + to;
    }
    return std::nullopt;
}

std::optional<std::expected<int, int>> kept_descriptor(const std::string& path) {
    const auto number = descriptor_named(path);
    if (!number) return std::nullopt;
    if (*number < 0) return std::unexpected(ENOENT);
    const int kept = ::fcntl(*number, F_DUPFD_CLOEXEC, 3);
    if (kept < 0) return std::unexpected(errno);
    return kept;
}

}  // namespace chainio::run
