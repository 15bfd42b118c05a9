// What a chain has to hear of that asks for nothing: what is posted costs the program, and more so while it waits for
// the disk anyway, for then each event wakes the server.
//
// A chain that asks for nothing at kQuiet events in a row, and of whose fetches none is read meanwhile, hears of slow
// reads only. Where it sees what is read and has asked for something before, that takes kQuietAgain: a page of an index
// may name hundreds of rows, and is followed by their pages, of which the chain has nothing to say. Chains that go by
// openings, and by the places of reads, have no such pages; with most of them it is whatever the program does that they
// ask for something, so that what is in memory already is nothing either.
//
// While reads are slow that is no rest. One that has nothing to say of kInVain more events is told of slow reads as
// before, but they wake nobody: the server finds them when it next looks, after 10 ms, and an index scan that has begun
// meanwhile is followed from then on. Once it has looked and found nothing, it is woken by the next (Region::rests).
#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/shadow/plan.h"

namespace chainio::shadow {

class Silence {
  public:
    static constexpr std::uint32_t kQuiet = 64, kQuietAgain = 1024, kInVain = 32;
    static constexpr std::uint32_t kMostWaits = 5, kLeastHeard = 3;  // doublings and halvings

    // `sees_bytes`: of what is read.
    explicit Silence(bool sees_bytes) : sees_bytes_(sees_bytes) {}

    void asked() {
        has_asked_ = true;
        if (sees_bytes_) silent_ = 0;
    }
    // What it has asked for was not in memory, or is read now.
    void useful() { silent_ = waits_ = vain_ = 0; }
    void in_memory() {
        if (!sees_bytes_) nothing();
    }
    // For the disk, while the chain is quiet. What one goes by that sees no byte (what is asked for, before it is known
    // what there is) it hears only aloud: so it hears kQuiet events again after one such read, and each time that this
    // was in vain half as many after twice as many reads.
    void program_waited() {
        if (sees_bytes_ || silent_ < quiet_at() || ++waits_ < 1u << std::min(vain_, kMostWaits)) return;
        waits_ = 0;
        silent_ = quiet_at() - (kQuiet >> std::min(vain_, kLeastHeard));
        vain_++;
    }
    // An event at which it has asked for nothing.
    void nothing() {
        if (silent_ < quiet_at() + kInVain) silent_++;
    }
    Listens hears() const {
        if (silent_ < quiet_at()) return Listens::to_all;
        return silent_ < quiet_at() + kInVain ? Listens::to_slow_reads : Listens::in_its_sleep;
    }

  private:
    std::uint32_t quiet_at() const { return has_asked_ && sees_bytes_ ? kQuietAgain : kQuiet; }

    bool sees_bytes_, has_asked_ = false;
    std::uint32_t silent_ = 0;
    std::uint32_t waits_ = 0;  // reads that waited while it was quiet
    std::uint32_t vain_ = 0;   // times that they ended it and brought nothing
};

}  // namespace chainio::shadow
