// How long who reads from a disk waits while it has little else to do: the lower quartile of the latest kLatest waits.
// A mean would hold against the program what waits only because so much is fetched ahead. A few say nothing: the first
// of a run may wait for what happens once.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace chainio::shadow {

class Waits {
  public:
    static constexpr std::size_t kLatest = 32, kLeast = 4;

    void add(std::uint64_t took_ns) {
        latest_[count_++ % kLatest] = took_ns;
        is_known_ = false;
    }
    bool tell() const { return count_ >= kLeast; }
    // 0: there were too few yet. Many come between two questions.
    std::uint64_t lower_ns() {
        if (is_known_ || !tell()) return lower_ns_;
        std::array<std::uint64_t, kLatest> sorted = latest_;
        const std::size_t known = std::min(count_, kLatest);
        const auto quartile = sorted.begin() + (known - 1) / 4;
        std::nth_element(sorted.begin(), quartile, sorted.begin() + known);
        is_known_ = true;
        return lower_ns_ = *quartile;
    }

  private:
    std::array<std::uint64_t, kLatest> latest_{};
    std::size_t count_ = 0;
    std::uint64_t lower_ns_ = 0;
    bool is_known_ = false;
};

}  // namespace chainio::shadow
