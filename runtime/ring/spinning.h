// Whether who waits looks on for a moment before it sleeps. Something that comes while it looks spares the wake-up, and
// its chain the delay; nothing has come for the price of a processor that somebody else may want. The one is worth some
// three of the other, so looking on pays where one look in three is not in vain. Where it does not, one in kTry is made
// all the same.
#pragma once
#include <algorithm>

namespace chainio::ring {

class Spinning {
  public:
    static constexpr int kFound = 3, kLook = 1, kMost = 32;
    static constexpr unsigned kTry = 16;

    // Whether to look on this time.
    bool begins() { return credit_ > 0 || ++passed_ % kTry == 0; }
    // Each look that was begun ends; one that found something says so before.
    void found() { credit_ = std::min(credit_ + kFound, kMost); }
    void ended() { credit_ = std::max(credit_ - kLook, 0); }

  private:
    int credit_ = kMost / 2;
    unsigned passed_ = 0;
};

}  // namespace chainio::ring
