// What a chain has to hear of that asks for nothing: what is posted costs the program, and more so while it waits for
// the disk anyway, for then each event wakes the server.
//
// A chain that asks for nothing at kQuiet events in a row, and of whose fetches none is read meanwhile, hears of slow
// reads only. Where it has asked for something before, that takes kQuietAgain: a page of an index may name hundreds of
// rows, and is followed by their pages, of which the chain has nothing to say.
//
// While reads are slow that is no rest. One that has nothing to say of kInVain more events is told of slow reads as
// before, but they wake nobody: the server finds them when it next looks, after 10 to 160 ms, and an index scan that
// has begun meanwhile is followed from then on.
#pragma once
#include <cstdint>

#include "runtime/shadow/plan.h"

namespace chainio::shadow {

class Silence {
  public:
    static constexpr std::uint32_t kQuiet = 64, kQuietAgain = 1024, kInVain = 32;

    void asked() {
        has_asked_ = true;
        silent_ = 0;
    }
    // Something was read that it has fetched.
    void useful() { silent_ = 0; }
    // An event at which it has asked for nothing.
    void nothing() {
        if (silent_ < quiet_at() + kInVain) silent_++;
    }
    Listens hears() const {
        if (silent_ < quiet_at()) return Listens::to_all;
        return silent_ < quiet_at() + kInVain ? Listens::to_slow_reads : Listens::in_its_sleep;
    }

  private:
    std::uint32_t quiet_at() const { return has_asked_ ? kQuietAgain : kQuiet; }

    bool has_asked_ = false;
    std::uint32_t silent_ = 0;
};

}  // namespace chainio::shadow
