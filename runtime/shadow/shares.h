// How much was read of what a chain's latest events had fetched. A gate looks back to 128 outcomes, and those of one
// event may be as many and all bad: of a page at the end of what a query wants, or of one that it only looks at. So
// before a chain goes off, the share that was read is taken of several events, each with all that has come of it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace chainio::shadow {

class Shares {
  public:
    static constexpr std::size_t kGroups = 8;    // the latest
    static constexpr std::uint32_t kLeast = 16;  // ranges of a group: of small events several are one

    void add(std::uint32_t fetched, std::uint32_t useful) {
        if (groups_[at_].fetched >= kLeast) groups_[at_ = (at_ + 1) % kGroups] = {};
        groups_[at_].fetched += fetched;
        groups_[at_].useful += useful;
    }
    // 0 while nothing is known.
    double useful() const {
        std::uint64_t fetched = 0, useful = 0;
        for (const Group& group : groups_) {
            fetched += group.fetched;
            useful += group.useful;
        }
        return fetched == 0 ? 0 : static_cast<double>(useful) / static_cast<double>(fetched);
    }
    void clear() { groups_ = {}; }

  private:
    struct Group {
        std::uint64_t fetched = 0, useful = 0;
    };
    std::array<Group, kGroups> groups_{};
    std::size_t at_ = 0;
};

}  // namespace chainio::shadow
