#include "tools/chainio/run/children.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tools/chainio/run/files.h"

namespace chainio::run {
namespace {

constexpr std::size_t kMost = std::size_t{1} << 20;

bool is_waited_for(idtype_t kind, int number) {
    siginfo_t info{};
    return ::waitid(kind, static_cast<id_t>(number), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Not every kernel has this list. Only the first thread has children.
std::optional<std::vector<int>> from_list() {
    const std::string self = std::to_string(::getpid());
    const auto text = read_whole("/proc/self/task/" + self + "/children", kMost);
    if (!text) return std::nullopt;
    std::vector<int> found;
    for (const char* at = text->c_str();;) {
        char* end = nullptr;
        const long number = std::strtol(at, &end, 10);
        if (end == at) return found;
        found.push_back(static_cast<int>(number));
        at = end;
    }
}

// 0: not known. The name of the program, in parentheses, may hold any.
int parent_of(const char* process) {
    const auto text = read_whole(std::string("/proc/") + process + "/stat", kMost);
    const std::size_t name_end = text ? text->rfind(')') : std::string::npos;
    constexpr std::size_t kState = 4;  // ") S "
    return name_end == std::string::npos || text->size() <= name_end + kState
               ? 0
               : std::atoi(text->c_str() + name_end + kState);
}

std::vector<int> from_parents() {
    std::vector<int> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> processes(
        ::opendir("/proc"), [](DIR* folder) { return folder != nullptr ? ::closedir(folder) : 0; });
    for (const dirent* each = nullptr; processes != nullptr && (each = ::readdir(processes.get())) != nullptr;) {
        const int number = std::atoi(each->d_name);
        if (number > 0 && parent_of(each->d_name) == ::getpid()) found.push_back(number);
    }
    return found;
}

bool shows_all_processes() {
    char self[16] = {};
    const ssize_t length = ::readlink("/proc/self", self, sizeof self - 1);
    return length > 0 && std::atoi(self) == ::getpid() && ::access("/proc/1", F_OK) == 0;
}

}  // namespace

std::vector<int> children() {
    if (!is_waited_for(P_ALL, 0) || !shows_all_processes()) return {};
    auto listed = from_list();
    std::vector<int> found = listed ? std::move(*listed) : from_parents();
    std::erase_if(found, [](int child) { return !is_waited_for(P_PID, child); });
    std::ranges::sort(found);
    return found;
}

}  // namespace chainio::run
