// How what was fetched at a chain's events has come out. At an event hundreds of ranges may be fetched. Those that are
// read are known at once, and the others all together, when they have lain there for long: more of them in a row than
// the gate looks back to. So with each that was not read come as many of those of its event that were as there are to
// one that was not, once more: the gate sees the event's share then, whatever came when.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace chainio::shadow {

class Turns {
  public:
    static constexpr std::size_t kTurns = 64;    // the latest, which are more than it takes to give ranges up
    static constexpr std::uint32_t kMost = 128;  // at once: a gate looks back to no more

    void fetched(std::uint64_t turn, std::uint32_t ranges) {
        Turn& at = turns_[turn % kTurns];
        if (at.turn < turn) at = {.turn = turn};
        if (at.turn == turn) at.fetched += ranges;
    }
    void useful(std::uint64_t turn) {
        if (Turn* at = find(turn)) at->useful++;
    }
    // One was not read. How many that were it stands beside.
    std::uint32_t wasted(std::uint64_t turn) {
        Turn* at = find(turn);
        if (at == nullptr || at->useful >= at->fetched) return 0;
        const std::uint32_t others = at->fetched - at->useful;
        const std::uint32_t owed = at->owed + at->useful;
        at->owed = owed % others;
        return std::min(owed / others, kMost);
    }

  private:
    struct Turn {
        std::uint64_t turn = 0;
        std::uint32_t fetched = 0, useful = 0;  // ranges
        std::uint32_t owed = 0;                 // of `useful`, times as many as were not
    };
    Turn* find(std::uint64_t turn) {
        Turn& at = turns_[turn % kTurns];
        return at.turn == turn && turn != 0 ? &at : nullptr;
    }

    std::array<Turn, kTurns> turns_{};
};

}  // namespace chainio::shadow
