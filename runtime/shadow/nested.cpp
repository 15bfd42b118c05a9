#include "runtime/shadow/nested.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

namespace chainio::shadow {
namespace {

constexpr std::size_t kStatus = 4096, kLongestStatus = std::size_t{1} << 20;

bool has_ended(int error) { return error == ENOENT || error == ESRCH; }

// What the file says, or an error. Behind many groups, of which a line of it is, it is long.
std::expected<std::string_view, int> read_status(int proc, const std::string& name, std::string& text) {
    const int fd = openat(proc, (name + "/status").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::unexpected(errno);
    std::size_t filled = 0;
    ssize_t got = 0;
    do {
        if (filled == text.size()) text.resize(text.size() + kStatus);
        got = read(fd, text.data() + filled, text.size() - filled);
        filled += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    } while (got > 0 && filled == text.size() && filled < kLongestStatus);
    const int error = errno;
    close(fd);
    if (got < 0) return std::unexpected(error);
    return std::string_view(text).substr(0, filled);
}

// False: who it is cannot be told.
bool strike(int proc, const std::string& name, std::string& text, std::vector<NestedProcess>& all) {
    const auto status = read_status(proc, name, text);
    if (!status) return has_ended(status.error());
    const auto said = own_number(*status);
    if (!said) return false;
    const std::uint32_t number = *said;
    if (number == 0 || std::ranges::find(all, number, &NestedProcess::number) == all.end()) return true;
    struct stat info{};
    const bool is_known = fstatat(proc, (name + "/ns/pid").c_str(), &info, 0) == 0;
    if (!is_known && has_ended(errno)) return true;
    const auto pids = static_cast<std::uint32_t>(info.st_ino);
    std::erase_if(all,
                  [&](const NestedProcess& one) { return one.number == number && (!is_known || one.pids == pids); });
    return true;
}

struct CloseFolder {
    void operator()(DIR* folder) const { closedir(folder); }
};

}  // namespace

std::optional<std::uint32_t> own_number(std::string_view status) {
    constexpr std::string_view kKey = "\nNSpid:\t";
    const std::size_t at = status.find(kKey);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = status.substr(at + kKey.size());
    const std::string_view numbers = rest.substr(0, rest.find('\n'));
    const std::size_t last = numbers.rfind('\t');
    if (last == std::string_view::npos) return 0;
    std::uint32_t number = 0;
    std::from_chars(numbers.data() + last + 1, numbers.data() + numbers.size(), number);
    return number;
}

void strike_living(std::vector<NestedProcess>& all) {
    const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc"));
    // Where /proc hides other users' processes (hidepid), it hides the first.
    if (folder == nullptr || faccessat(dirfd(folder.get()), "1", F_OK, 0) != 0) return all.clear();
    std::string text;
    while (!all.empty()) {
        errno = 0;
        const dirent* entry = readdir(folder.get());
        if (entry == nullptr && errno != 0) return all.clear();
        if (entry == nullptr) return;
        const std::string name = entry->d_name;
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        if (!strike(dirfd(folder.get()), name, text, all)) return all.clear();
    }
}

}  // namespace chainio::shadow
