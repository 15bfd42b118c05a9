#include "runtime/shadow/process_rings.h"

#include <signal.h>

#include <bit>
#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

namespace chainio::shadow {
namespace {

constexpr std::size_t kMostWatched = 65536;
constexpr unsigned kRarest = 16;      // ticks between two looks
constexpr unsigned kLooksOfTick = 4;  // each takes the server some microseconds a mapping

}  // namespace

// A context of kernel AIO is a mapping and nothing else; a ring whose descriptor is closed still is one. A process's
// descriptors are not looked at: the kernel holds each of the files while it says which they are, and what the process
// closes in that moment stays open for those at the other end of a pipe or a socket.
std::optional<unsigned> ProcessRings::held_by(std::uint32_t process) {
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    unsigned kinds = 0;
    bool any = false;
    for (std::string line; std::getline(maps, line); any = true) {
        if (line.find("/[aio]") != std::string::npos) kinds |= aio;
        if (line.find("anon_inode:[io_uring]") != std::string::npos) kinds |= uring;
    }
    return any ? std::optional(kinds) : std::nullopt;
}

void ProcessRings::found(Watched& watched, unsigned kinds) {
    const unsigned fresh = kinds & ~watched.found;
    watched.found |= kinds;
    urings_ += (fresh & uring) != 0;
    aios_ += (fresh & aio) != 0;
}

void ProcessRings::look_at(std::uint32_t process, Watched& watched) {
    if (watched.found != (uring | aio)) found(watched, held_by(process).value_or(0));
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
