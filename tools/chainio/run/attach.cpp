#include "tools/chainio/run/attach.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <set>

#include "runtime/shadow/region.h"
#include "tools/chainio/run/files.h"

namespace chainio::run {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostText = 4 << 20;

// Paths of files of which one may be the region of a process: the shared, writable ones that it has mapped.
std::set<std::string> possible_regions(int pid) {
    std::set<std::string> out;
    const auto maps = read_whole(fmt::format("/proc/{}/maps", pid), kMostText);
    if (!maps) return out;
    std::string_view rest = *maps;
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        const std::size_t path = line.find('/');
        if (path != std::string_view::npos && line.find(" rw-s ") != std::string_view::npos)
            out.emplace(line.substr(path));
    }
    // A server that is about to take over from the launcher has its region, and has not mapped it yet.
    const std::string name = fmt::format("/chainio-run.{}.", pid);
    for (const std::string& base : shadow::run_bases()) {
        for (const std::string& directory : shadow::run_directories_in(base))
            if (directory.starts_with(base + name)) out.insert(directory + "/region");
    }
    return out;
}

}  // namespace

Attached::~Attached() { ::munmap(const_cast<shim::Region*>(region_), shim::kRegionBytes); }

bool Attached::alive() const {
    return region_->server.load() == static_cast<std::uint32_t>(server_) && (::kill(server_, 0) == 0 || errno == EPERM);
}

// Null when the file is no region of this version.
std::unique_ptr<Attached> attach_to(const std::string& path) {
    const shim::Region* region = shadow::map_region(path, false);
    if (region == nullptr) return nullptr;
    const auto server = static_cast<int>(region->server.load());
    auto attached = std::unique_ptr<Attached>(new Attached(region, server));
    const bool right = region->magic == shim::kMagic && region->version == shim::kVersion && server > 0;
    return right ? std::move(attached) : nullptr;
}

std::vector<RunningRun> running_runs() {
    std::vector<RunningRun> out;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
        const std::string name = entry.path().filename().string();
        int pid = 0;
        const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (wrong != std::errc{} || end != name.data() + name.size()) continue;
        for (const std::string& path : possible_regions(pid)) {
            const auto attached = attach_to(path);
            if (!attached || attached->server() != pid) continue;
            std::string words = read_whole(fmt::format("/proc/{}/cmdline", pid), kMostText).value_or("");
            for (char& c : words) c = c == '\0' ? ' ' : c;
            out.push_back({pid, std::move(words)});
            break;
        }
    }
    return out;
}

std::expected<std::unique_ptr<Attached>, std::string> attach(int pid) {
    if (::kill(pid, 0) != 0 && errno == ESRCH) return std::unexpected(fmt::format("there is no process {}", pid));
    bool ended = false;
    for (const std::string& path : possible_regions(pid)) {
        auto attached = attach_to(path);
        if (attached && attached->alive()) return attached;
        ended = ended || attached != nullptr;
    }
    if (ended)
        return std::unexpected(
            fmt::format("the `chainio run` that process {} belongs to has ended; it runs plain", pid));
    if (read_whole(fmt::format("/proc/{}/comm", pid), kMostText).value_or("") == "chainio-runtime\n")
        return std::unexpected(
            fmt::format("process {} is a chainio-runtime, whose counters `chainio control SOCKET stats` "
                        "prints; SOCKET is what it got as --socket",
                        pid));
    // The mode of this file lets everybody read it; the kernel refuses when it is opened.
    const bool hidden = !read_whole(fmt::format("/proc/{}/maps", pid), kMostText);
    return std::unexpected(
        hidden ? fmt::format("this user may not look at process {}{}", pid,
                             ::geteuid() == 0 ? ", as it lacks a capability" : "; be the user that started it, or root")
               : fmt::format("process {} is no `chainio run`, nor started by one", pid));
}

}  // namespace chainio::run
