#include "runtime/umem/room.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace chainio::umem {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr auto kWholeLine = std::numeric_limits<std::streamsize>::max();

// The files and words of a version of cgroups that are needed here.
struct Version {
    const char *limit, *usage;
    const char* of_files[2];  // in memory.stat: what is kept of files. Memory that is shared is none of these.
};
constexpr Version kUnified{"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr Version kFirst{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

std::size_t less(std::size_t from, std::size_t what) { return from - std::min(from, what); }

// No number, as `max`, is no bound.
std::size_t number_in(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::size_t number = 0;
    return file >> number ? number : SIZE_MAX;
}

// Of a file whose lines are a word and a number.
std::optional<std::size_t> number_of(const std::filesystem::path& path, std::string_view word) {
    std::ifstream file(path);
    std::string name;
    for (std::size_t number = 0; file >> name >> number; file.ignore(kWholeLine, '\n'))
        if (name == word) return number;
    return std::nullopt;
}

void narrow(Bound& bound, std::size_t bytes, const std::string& of) {
    if (bytes < bound.bytes) bound = {bytes, of};
}

void look_at(const std::filesystem::path& group, const Version& version, Room& room) {
    const std::size_t limit = number_in(group / version.limit), usage = number_in(group / version.usage);
    // The first version says the largest number of pages where there is no limit.
    if (limit > SIZE_MAX / 4) return;
    const std::string of = "the " + std::to_string(limit / kMiB) + " MiB of '" + (group / version.limit).string() +
                           "' (a container's limit, or MemoryMax= of a systemd unit)";
    narrow(room.all, limit, of);
    if (usage == SIZE_MAX) return;
    std::size_t kept = 0;
    for (const char* word : version.of_files) kept += number_of(group / "memory.stat", word).value_or(0);
    narrow(room.left, less(limit, less(usage, kept)), of);
}

bool has_word(const std::string& list, const std::string& word) {
    return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// The process's cgroup that bounds memory, as /proc/self/cgroup names it: a line is NUMBER:CONTROLLERS:PATH.
std::string group_of(const std::string& root, bool unified) {
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (unified ? line.starts_with("0::") : has_word(controllers, "memory")) return line.substr(second + 1);
    }
    return {};
}

// A mounted tree of cgroups, of which a container may see a part only: from `begin` on.
void look_at_tree(const std::string& root, const std::string& begin, const std::string& mounted, bool unified,
                  Room& room) {
    const Version& version = unified ? kUnified : kFirst;
    const std::string group = group_of(root, unified);
    const bool within = begin == "/" || group == begin || group.starts_with(begin + "/");
    std::filesystem::path at = root + mounted;
    look_at(at, version, room);
    if (!within) return;
    for (const auto& part : std::filesystem::path(group.substr(begin == "/" ? 0 : begin.size())).relative_path())
        look_at(at /= part, version, room);
}

void look_at_cgroups(const std::string& root, Room& room) {
    std::ifstream file(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
        const std::size_t dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        std::istringstream place(line), kind(line.substr(dash + 3));
        std::string skipped, begin, mounted, type, source, options;
        place >> skipped >> skipped >> skipped >> begin >> mounted;
        kind >> type >> source >> options;
        if (type == "cgroup2" || (type == "cgroup" && has_word(options, "memory")))
            look_at_tree(root, begin, mounted, type == "cgroup2", room);
    }
}

// Others' memory may go to where there is swap.
void look_at_machine(const std::string& root, Room& room) {
    const std::string meminfo = root + "/proc/meminfo";
    room.machine = room.all = memory_of_machine();
    const auto available = number_of(meminfo, "MemAvailable:");
    if (available)
        room.left = {(*available + number_of(meminfo, "SwapFree:").value_or(0)) * 1024, room.machine.of};
    else
        room.unread = "'" + meminfo +
                      "' does not say what is left of this machine's memory (ProcSubset=pid of a systemd unit hides "
                      "it), so that more than that is not refused";
}

}  // namespace

Bound memory_of_machine() {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages < 0 || page < 0) return {};
    const std::size_t all = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
    return {all, "this machine's " + std::to_string(all / kMiB) + " MiB"};
}

Room room_for_process(const std::string& root) {
    Room room;
    look_at_machine(root, room);
    look_at_cgroups(root, room);
    return room;
}

}  // namespace chainio::umem
