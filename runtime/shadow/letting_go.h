// Which files programs wait for to be closed: those that were deleted, or all. Who wants all closed counts
// Region::unmounts before Region::removals, and waits until it is told of the latter.
#pragma once
#include <cstdint>

namespace chainio::shadow {

class LettingGo {
  public:
    struct Wanted {
        std::uint32_t unmounts, removals;
        bool all;
    };
    // Each is given as what loads it. Who has counted between the first look and the last has all closed now, and may
    // wait for a later count of removals, for which all is closed once more.
    template <typename Unmounts, typename Removals>
    Wanted look(Unmounts unmounts, Removals removals) const {
        const std::uint32_t first = unmounts(), removed = removals();
        return {.unmounts = first, .removals = removed, .all = unmounts() != closed_for_};
    }
    // That has been closed, and who waits is told.
    void done(const Wanted& wanted) { closed_for_ = wanted.unmounts; }

  private:
    std::uint32_t closed_for_ = 0;  // Region::unmounts
};

}  // namespace chainio::shadow
