// How what was fetched at a chain's events has come out. At an event hundreds of ranges may be fetched. Those that are
// read are known at once, and the others all together, when they have lain there for long: more of them in a row than
// the gate looks back to. So with each that was not read come as many of those of its event that were as there are to
// one that was not, once more: the gate sees the event's share then, whatever came when. An event of which all is
// known, or which is too long ago, counts once among the latest ones (shares.h).
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/shadow/shares.h"

namespace chainio::shadow {

class Turns {
  public:
    static constexpr std::size_t kTurns = 64;    // the latest, which are more than it takes to give ranges up
    static constexpr std::uint32_t kMost = 128;  // at once: a gate looks back to no more

    void fetched(std::uint64_t turn, std::uint32_t ranges) {
        Turn& at = turns_[turn % kTurns];
        if (at.turn < turn) {
            leave(at);
            at = {.turn = turn};
        }
        if (at.turn == turn) at.fetched += ranges;
        const std::uint64_t before = std::exchange(latest_, std::max(latest_, turn));
        if (Turn* over = before < latest_ ? find(before) : nullptr) leave_if_known(*over);
    }
    void useful(std::uint64_t turn) {
        Turn* at = find(turn);
        if (at == nullptr) return counts_alone(turn, 1);
        at->useful++;
        leave_if_known(*at);
    }
    // One was not read. How many that were it stands beside.
    std::uint32_t wasted(std::uint64_t turn) {
        Turn* at = find(turn);
        if (at == nullptr) {
            counts_alone(turn, 0);
            return 0;
        }
        lost(*at);
        if (at->useful >= at->fetched) return 0;
        const std::uint32_t others = at->fetched - at->useful;
        const std::uint32_t owed = at->owed + at->useful;
        at->owed = owed % others;
        return std::min(owed / others, kMost);
    }
    // One was read, and waited for as long as if it had not been fetched.
    void vain(std::uint64_t turn) {
        Turn* at = find(turn);
        at == nullptr ? counts_alone(turn, 0) : lost(*at);
    }
    // One that was said to be wasted is about to be said to be something else.
    void redeemed(std::uint64_t turn) {
        if (Turn* at = find(turn); at != nullptr && at->lost > 0) at->lost--;
    }

    // What was fetched at events before this one says nothing any more.
    void begin_anew(std::uint64_t turn) {
        first_ = turn;
        shares_.clear();
    }
    const Shares& shares() const { return shares_; }

  private:
    struct Turn {
        std::uint64_t turn = 0;
        std::uint32_t fetched = 0, useful = 0, lost = 0;  // ranges
        std::uint32_t owed = 0;                           // of `useful`, times as many as were not
        bool left = false;                                // it is in the shares
    };
    Turn* find(std::uint64_t turn) {
        Turn& at = turns_[turn % kTurns];
        return at.turn == turn && turn != 0 ? &at : nullptr;
    }
    void lost(Turn& at) {
        at.lost++;
        leave_if_known(at);
    }
    void leave(Turn& at) {
        if (!at.left && at.turn >= first_) shares_.add(at.useful + at.lost, at.useful);
        at.left = true;
    }
    // More may be fetched at the latest event.
    void leave_if_known(Turn& at) {
        if (at.turn < latest_ && at.useful + at.lost >= at.fetched) leave(at);
    }
    void counts_alone(std::uint64_t turn, std::uint32_t useful) {
        if (turn >= first_) shares_.add(1, useful);
    }

    std::array<Turn, kTurns> turns_{};
    std::uint64_t latest_ = 0, first_ = 0;
    Shares shares_;
};

}  // namespace chainio::shadow
