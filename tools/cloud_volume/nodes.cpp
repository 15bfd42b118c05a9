#include "tools/cloud_volume/nodes.h"

#include <unistd.h>

#include <utility>
#include <vector>

namespace chainio::cloud {
namespace {

constexpr std::uint64_t kRoot = 1;

}  // namespace

Nodes::~Nodes() {
    for (const auto& [node, entry] : nodes_)
        if (entry.kept >= 0) ::close(entry.kept);
}

std::string Nodes::path(std::uint64_t node) {
    if (node == kRoot) return ".";
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(node);
    return found == nodes_.end() ? std::string() : found->second.path;
}

std::string Nodes::below(std::uint64_t parent, const char* name) {
    const std::string folder = path(parent);
    return folder.empty() ? folder : folder + "/" + name;
}

std::uint64_t Nodes::looked_up(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = by_path_.try_emplace(path, next_);
    if (fresh) nodes_[next_++].path = path;
    ++nodes_[at->second].lookups;
    return at->second;
}

void Nodes::forget(std::uint64_t node, std::uint64_t times) {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(node);
    if (found == nodes_.end()) return;
    found->second.lookups -= times;
    if (found->second.lookups > 0) return;
    const auto named = by_path_.find(found->second.path);
    if (named != by_path_.end() && named->second == node) by_path_.erase(named);
    if (found->second.kept >= 0) ::close(found->second.kept);
    nodes_.erase(found);
}

void Nodes::removed(const std::string& path) {
    const std::lock_guard lock(mutex_);
    no_name(path);
}

// The next file of that name is another one.
void Nodes::no_name(const std::string& path) {
    const auto named = by_path_.find(path);
    if (named == by_path_.end()) return;
    nodes_[named->second].path.clear();
    by_path_.erase(named);
}

bool Nodes::knows(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return by_path_.contains(path);
}

void Nodes::keep(const std::string& path, int fd) {
    const std::lock_guard lock(mutex_);
    const auto named = by_path_.find(path);
    if (named != by_path_.end() && nodes_[named->second].kept < 0) {
        nodes_[named->second].kept = fd;
    } else {
        ::close(fd);
    }
}

int Nodes::kept(std::uint64_t node) {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(node);
    return found == nodes_.end() ? -1 : found->second.kept;
}

void Nodes::moved(const std::string& from, const std::string& to) {
    const std::lock_guard lock(mutex_);
    no_name(to);
    std::vector<std::pair<std::string, std::uint64_t>> hit;
    for (const auto& [path, node] : by_path_) {
        if (path == from || path.starts_with(from + "/")) hit.emplace_back(path, node);
    }
    for (const auto& [path, node] : hit) {
        by_path_.erase(path);
        const std::string now = to + path.substr(from.size());
        by_path_[now] = node;
        nodes_[node].path = now;
    }
}

}  // namespace chainio::cloud
