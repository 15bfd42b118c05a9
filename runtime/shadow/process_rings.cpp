#include "runtime/shadow/process_rings.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace chainio::shadow {
namespace {

constexpr std::size_t kMostWatched = 65536;
constexpr std::uint32_t kMostOfLook = 4096;  // descriptors, of a look for the report
constexpr unsigned kRarest = 16;             // ticks between two looks
constexpr unsigned kLooksOfTick = 4;         // each takes the server some microseconds a descriptor and a mapping
constexpr std::string_view kUring = "anon_inode:[io_uring]";

std::string folder_of(std::uint32_t process) { return "/proc/" + std::to_string(process); }

std::optional<unsigned> among_descriptors(const std::string& base, std::uint32_t most) {
    DIR* directory = opendir((base + "/fd").c_str());
    if (directory == nullptr) return std::nullopt;
    unsigned kinds = 0;
    const dirent* entry = nullptr;
    for (std::uint32_t seen = 0; (entry = readdir(directory)) != nullptr && kinds == 0 && seen < most; seen++) {
        char target[64];
        const ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target);
        if (length > 0 && std::string_view(target, static_cast<std::size_t>(length)) == kUring)
            kinds = ProcessRings::uring;
    }
    closedir(directory);
    if (entry != nullptr && kinds == 0) return std::nullopt;  // not all were looked at
    return kinds;
}

// A context of kernel AIO is a mapping and nothing else; a ring whose descriptor is closed still is one.
std::optional<unsigned> among_mappings(const std::string& base) {
    std::ifstream maps(base + "/maps");
    unsigned kinds = 0;
    bool any = false;
    for (std::string line; std::getline(maps, line); any = true) {
        if (line.find("/[aio]") != std::string::npos) kinds |= ProcessRings::aio;
        if (line.find(kUring) != std::string::npos) kinds |= ProcessRings::uring;
    }
    return any ? std::optional(kinds) : std::nullopt;
}

}  // namespace

std::optional<unsigned> ProcessRings::held_by(std::uint32_t process, std::uint32_t most_descriptors) {
    const std::string base = folder_of(process);
    const auto open = among_descriptors(base, most_descriptors), mapped = among_mappings(base);
    if (!open || !mapped) return std::nullopt;
    return *open | *mapped;
}

void ProcessRings::found(Watched& watched, unsigned kinds) {
    const unsigned fresh = kinds & ~watched.found;
    watched.found |= kinds;
    urings_ += (fresh & uring) != 0;
    aios_ += (fresh & aio) != 0;
}

void ProcessRings::look_at(std::uint32_t process, Watched& watched) {
    if (watched.found == (uring | aio)) return;
    const std::string base = folder_of(process);
    found(watched, among_descriptors(base, kMostOfLook).value_or(0) | among_mappings(base).value_or(0));
}

void ProcessRings::watch(std::uint32_t process) {
    if (watched_.size() < kMostWatched || watched_.contains(process)) look_at(process, watched_[process]);
}

void ProcessRings::told(std::uint32_t process, Kind kind) {
    if (watched_.size() < kMostWatched || watched_.contains(process)) found(watched_[process], kind);
}

void ProcessRings::tick() {
    std::erase_if(watched_,
                  [](const auto& entry) { return kill(static_cast<pid_t>(entry.first), 0) != 0 && errno == ESRCH; });
    for (auto& [process, watched] : watched_) {
        watched.ticks++;
        watched.due = watched.due || std::has_single_bit(watched.ticks) || watched.ticks % kRarest == 0;
    }
    auto at = watched_.upper_bound(last_);
    for (std::size_t seen = 0, looks = 0; seen < watched_.size() && looks < kLooksOfTick; seen++, at++) {
        if (at == watched_.end()) at = watched_.begin();
        if (!std::exchange(at->second.due, false)) continue;
        look_at(at->first, at->second);
        last_ = at->first;
        looks++;
    }
}

void ProcessRings::look_at_all() {
    for (auto& [process, watched] : watched_) look_at(process, watched);
}

}  // namespace chainio::shadow
