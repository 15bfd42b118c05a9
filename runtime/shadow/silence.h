// What a chain has to hear of that asks for nothing: what is posted costs the program, and more so while it waits for
// the disk anyway, for then each event wakes the server.
//
// A chain that asks for nothing at kQuiet events in a row, and of whose fetches none is read meanwhile, hears of slow
// reads only. Where it has asked for something before, that takes kQuietAgain: a page of an index may name hundreds of
// rows, and is followed by their pages, of which the chain has nothing to say.
//
// While reads are slow that is no rest. One that still asks for nothing then hears of nothing for a pause, which grows
// from kFirstPause by doubling to 16 times that, and between the pauses of some events, which grow from kHeard to 8
// times that. So an index scan that begins in a pause is noticed within it, and a chain that is of no use costs some
// percent of the first tenths of a second and half a percent later.
#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/shadow/plan.h"

namespace chainio::shadow {

class Silence {
  public:
    static constexpr std::uint32_t kQuiet = 64, kQuietAgain = 1024, kHeard = 32;
    static constexpr std::uint64_t kFirstPause = 10'000'000;  // ns

    // `reads`: it runs on reads. Openings are told of in any case; they do not wake the server for a quiet chain.
    explicit Silence(bool reads) : reads_(reads) {}

    void asked() {
        has_asked_ = true;
        useful();
    }
    // Something was read that it has fetched.
    void useful() {
        silent_ = 0;
        pauses_ = 0;
        deaf_until_ = 0;
    }
    // An event at which it has asked for nothing.
    void nothing(std::uint64_t now_ns) {
        const std::uint32_t quiet = quiet_at();
        if (deaf_until_ != 0 || (!reads_ && silent_ == quiet)) return;
        if (++silent_ < quiet + (kHeard << std::min(pauses_, 3u)) || !reads_) return;
        deaf_until_ = now_ns + (kFirstPause << pauses_);
        pauses_ = std::min(pauses_ + 1, 4u);
        silent_ = quiet;
    }
    void pass(std::uint64_t now_ns) {
        if (now_ns >= deaf_until_) deaf_until_ = 0;
    }
    Listens hears() const {
        if (deaf_until_ != 0) return Listens::to_nothing;
        return silent_ >= quiet_at() ? Listens::to_slow_reads : Listens::to_all;
    }

  private:
    std::uint32_t quiet_at() const { return has_asked_ ? kQuietAgain : kQuiet; }

    bool reads_, has_asked_ = false;
    std::uint32_t silent_ = 0, pauses_ = 0;
    std::uint64_t deaf_until_ = 0;  // 0: it hears
};

}  // namespace chainio::shadow
