// Compiled specs of earlier runs, under $XDG_CACHE_HOME/chainio. An entry is good as long as every source that the
// compiler read is what it was; an entry that is damaged, or that somebody else could have written, is as good as none.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chainio::run {

struct CachedSource {
    std::string path;
    std::string fingerprint;
};

struct Kept {
    std::string launch;  // shadow::launch_of
    std::string artifact;
};

class Cache {
  public:
    static constexpr std::size_t kMostEntries = 64;  // the oldest go when there are more

    // $XDG_CACHE_HOME/chainio or ~/.cache/chainio; without either nothing is kept.
    static Cache of_user();
    // `why_none`: why there is no folder, where one is wanted.
    explicit Cache(std::string folder, std::string why_none = {})
        : folder_(std::move(folder)), why_none_(std::move(why_none)) {}

    // What was kept under the key, if its sources have not changed.
    std::optional<std::string> find_artifact(const std::string& key) const;
    std::optional<std::string> find_launch(const std::string& key) const;  // without reading the artifact behind it
    // Replaces what was kept; a cache that cannot be written is only slower. Returns why nothing is kept that should
    // be, or nothing.
    std::string keep(const std::string& key, const std::vector<CachedSource>& sources, const Kept& what) const;

  private:
    std::string path_of(const std::string& key) const;
    void drop_oldest() const;

    std::string folder_, why_none_;
};

}  // namespace chainio::run
