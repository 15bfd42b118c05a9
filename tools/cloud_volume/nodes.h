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
    std::string path(std::uint64_t node);  // relative to the source; "." for the root; empty: unknown
    std::string below(std::uint64_t parent, const char* name);
    std::uint64_t looked_up(const std::string& path);
    void forget(std::uint64_t node, std::uint64_t times);
    void moved(const std::string& from, const std::string& to);
    void removed(const std::string& path);

  private:
    struct Node {
        std::string path;
        std::uint64_t lookups = 0;
    };
    std::mutex mutex_;
    std::unordered_map<std::uint64_t, Node> nodes_;
    std::map<std::string, std::uint64_t> by_path_;
    std::uint64_t next_ = 2;
};

}  // namespace chainio::cloud
