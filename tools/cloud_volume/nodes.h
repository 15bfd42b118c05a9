// Which inode number of the volume is which path below the source.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

namespace chainio::cloud {

class Nodes {
  public:
    Nodes() = default;
    ~Nodes();
    Nodes(const Nodes&) = delete;
    std::string path(std::uint64_t node);  // relative to the source; "." for the root; empty: it has none (any more)
    std::string below(std::uint64_t parent, const char* name);  // empty: the parent has no path
    std::uint64_t looked_up(const std::string& path);
    void forget(std::uint64_t node, std::uint64_t times);
    void moved(const std::string& from, const std::string& to);
    void removed(const std::string& path);
    bool knows(const std::string& path);
    // The file is reached by this descriptor from here on, which is closed when the kernel has forgotten it.
    void keep(const std::string& path, int fd);
    int kept(std::uint64_t node);  // -1: by its path

  private:
    struct Node {
        std::string path;
        std::uint64_t lookups = 0;
        int kept = -1;
    };
    void no_name(const std::string& path);
    std::mutex mutex_;
    std::unordered_map<std::uint64_t, Node> nodes_;
    std::map<std::string, std::uint64_t> by_path_;
    std::uint64_t next_ = 2;
};

}  // namespace chainio::cloud
