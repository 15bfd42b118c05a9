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

#include "runtime/shadow/nested.h"
#include "runtime/shadow/region.h"
#include "tools/chainio/run/files.h"

namespace chainio::run {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostText = 4 << 20;

// Whether a process is in the same namespace as this one, which it is taken to be where that may not be looked at.
bool shares(int pid, std::string_view kind) {
    std::error_code error;
    return fs::equivalent(fmt::format("/proc/{}/ns/{}", pid, kind), fmt::format("/proc/self/ns/{}", kind), error) ||
           error;
}

// The number by which a process knows itself, in a PID namespace of its own.
int own_number_of(int pid) {
    const auto status = read_whole(fmt::format("/proc/{}/status", pid), kMostText);
    const std::uint32_t number = status ? shadow::own_number(*status).value_or(0) : 0;
    return number != 0 ? static_cast<int>(number) : pid;
}

// All that this one sees.
std::vector<int> processes() {
    std::vector<int> out;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
        const std::string name = entry.path().filename().string();
        int pid = 0;
        const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (wrong == std::errc{} && end == name.data() + name.size()) out.push_back(pid);
    }
    return out;
}

// Paths of files of which one may be the region of a process: the shared, writable ones that it has mapped. Of one that
// has mounts of its own, as in a container, they lead there.
std::set<std::string> possible_regions(int pid) {
    const std::string root = shares(pid, "mnt") ? "" : fmt::format("/proc/{}/root", pid);
    std::set<std::string> out;
    const auto maps = read_whole(fmt::format("/proc/{}/maps", pid), kMostText);
    if (!maps) return out;
    std::string_view rest = *maps;
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        const std::size_t path = line.find('/');
        if (path != std::string_view::npos && line.find(" rw-s ") != std::string_view::npos)
            out.insert(root + std::string(line.substr(path)));
    }
    // A server that is about to take over from the launcher has its region, and has not mapped it yet.
    const std::string name = fmt::format("/chainio-run.{}.", own_number_of(pid));
    for (const std::string& base : shadow::run_bases()) {
        for (const std::string& directory : shadow::run_directories_in(root + base))
            if (directory.starts_with(root + base + name)) out.insert(directory + "/region");
    }
    return out;
}

// The server of a process's region, which names it as the run's PID namespace does; 0 when there is none.
int server_of(int pid, const std::string& region, int named) {
    if (shares(pid, "pid")) return named;
    const auto has_it = [&region](const std::string& other) {
        std::error_code error;
        return fs::equivalent(other, region, error);
    };
    const auto all = processes();
    const auto found = std::ranges::find_if(all, [&](int other) {
        return own_number_of(other) == named && std::ranges::any_of(possible_regions(other), has_it);
    });
    return found == all.end() ? 0 : *found;
}

}  // namespace

Attached::Attached(const shim::Region* region) : region_(region), named_(static_cast<int>(region->server.load())) {}

Attached::~Attached() { ::munmap(const_cast<shim::Region*>(region_), shim::kRegionBytes); }

bool Attached::alive() const {
    return region_->server.load() == static_cast<std::uint32_t>(named_) && server_ > 0 &&
           (::kill(server_, 0) == 0 || errno == EPERM);
}

// Null when the file is no region of this version. One that names no server is that of a run which goes on plain.
std::unique_ptr<Attached> Attached::to(const std::string& path) {
    const shim::Region* region = shadow::map_region(path, false);
    if (region == nullptr) return nullptr;
    auto attached = std::unique_ptr<Attached>(new Attached(region));
    const bool right = region->magic == shim::kMagic && region->version == shim::kVersion && attached->named_ >= 0;
    return right ? std::move(attached) : nullptr;
}

std::vector<RunningRun> running_runs() {
    std::vector<RunningRun> out;
    for (const int pid : processes()) {
        for (const std::string& path : possible_regions(pid)) {
            const auto attached = Attached::to(path);
            if (!attached) continue;
            const int own = own_number_of(pid);
            const bool serves = attached->named_ == own;
            const bool was_served = attached->named_ == 0 && path.contains(fmt::format("/chainio-run.{}.", own));
            if (!serves && !was_served) continue;
            std::string words = read_whole(fmt::format("/proc/{}/cmdline", pid), kMostText).value_or("");
            for (char& c : words) c = c == '\0' ? ' ' : c;
            out.push_back({pid, std::move(words), serves});
            break;
        }
    }
    return out;
}

std::expected<std::unique_ptr<Attached>, std::string> attach(int pid) {
    if (::kill(pid, 0) != 0 && errno == ESRCH) return std::unexpected(fmt::format("there is no process {}", pid));
    bool ended = false, unserved = false;
    for (const std::string& path : possible_regions(pid)) {
        auto attached = Attached::to(path);
        if (!attached) continue;
        unserved = unserved || attached->named_ == 0;
        if (attached->named_ == 0) continue;
        attached->server_ = server_of(pid, path, attached->named_);
        if (attached->alive()) return attached;
        ended = true;
    }
    if (ended)
        return std::unexpected(
            fmt::format("the `chainio run` that process {} belongs to has ended; it runs plain", pid));
    if (unserved)
        return std::unexpected(
            fmt::format("the server of the `chainio run` that process {} belongs to has ended: what "
                        "the run goes on with is plain; its summary comes at its end",
                        pid));
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
