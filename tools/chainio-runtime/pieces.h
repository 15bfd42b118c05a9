// How much of what has come at once is seen to before the kernel hears what follows from it. Disks answer in bursts,
// and clients ask again as soon as they are answered: whoever sees to a burst of 32 whole has the disk and the clients
// idle meanwhile, and they stay in step with him from then on. Handing over costs a system call or two, which is little
// beside the replies of a piece. Only reads are worth it: where replies come from memory, the daemon's own time is all
// there is.
#pragma once
#include <algorithm>

namespace chainio::runtime_tool {

class Pieces {
  public:
    static constexpr unsigned kLeast = 4, kFew = 16, kOfABurst = 4;

    // How many chains that have ended are a piece, of so many that are on their way.
    static unsigned size(unsigned in_flight) {
        return std::max(kLeast, (in_flight - std::min(in_flight, kFew)) / kOfABurst);
    }
    // Of `ended` chains more it is being seen to what follows. Whether that makes a piece; then it is to be handed
    // over.
    bool is_full(unsigned ended, unsigned size) {
        owed_ += ended;
        if (owed_ < size) return false;
        owed_ = 0;
        return true;
    }

  private:
    unsigned owed_ = 0;
};

}  // namespace chainio::runtime_tool
