#include "runtime/shadow/nested.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

namespace chainio::shadow {
namespace {

bool has_ended(int error) { return error == ENOENT || error == ESRCH; }

// What the file says, or an error.
std::expected<std::string_view, int> read_status(int proc, const std::string& name, std::array<char, 4096>& text) {
    const int fd = openat(proc, (name + "/status").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::unexpected(errno);
    const ssize_t got = read(fd, text.data(), text.size());
    const int error = errno;
    close(fd);
    if (got < 0) return std::unexpected(error);
    return std::string_view(text.data(), static_cast<std::size_t>(got));
}

// The process's number in its own namespace; 0 where that is the one that /proc is of.
std::uint32_t own_number(std::string_view status) {
    constexpr std::string_view kKey = "\nNSpid:\t";
    const std::size_t at = status.find(kKey);
    if (at == std::string_view::npos) return 0;
    const std::string_view rest = status.substr(at + kKey.size());
    const std::string_view numbers = rest.substr(0, rest.find('\n'));
    const std::size_t last = numbers.rfind('\t');
    if (last == std::string_view::npos) return 0;
    std::uint32_t number = 0;
    std::from_chars(numbers.data() + last + 1, numbers.data() + numbers.size(), number);
    return number;
}

// False: who it is cannot be told.
bool strike(int proc, const std::string& name, std::vector<NestedProcess>& all) {
    std::array<char, 4096> text;
    const auto status = read_status(proc, name, text);
    if (!status) return has_ended(status.error());
    const std::uint32_t number = own_number(*status);
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

void strike_living(std::vector<NestedProcess>& all) {
    const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc"));
    // Where /proc hides other users' processes (hidepid), it hides the first.
    if (folder == nullptr || faccessat(dirfd(folder.get()), "1", F_OK, 0) != 0) return all.clear();
    while (!all.empty()) {
        errno = 0;
        const dirent* entry = readdir(folder.get());
        if (entry == nullptr && errno != 0) return all.clear();
        if (entry == nullptr) return;
        const std::string name = entry->d_name;
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        if (!strike(dirfd(folder.get()), name, all)) return all.clear();
    }
}

}  // namespace chainio::shadow
