// How much of what has come at once is seen to before the kernel hears what follows from it. Disks answer in bursts,
// and clients ask again as soon as they are answered: whoever sees to a burst of 32 whole has the disk and the clients
// idle meanwhile, and they stay in step with him from then on. Handing over costs system calls, few by AF_XDP and more
// by sockets. Only reads are worth it: where replies come from memory, the daemon's own time is all there is.
#pragma once
#include <algorithm>

namespace chainio::runtime_tool {

class Pieces {
  public:
    // Of few chains that are on their way; one more by AF_XDP of more than eight, which the disk is busy with
    // anyway; and a part of those beyond.
    static constexpr unsigned kByXdp = 2, kBySockets = 4, kSeveral = 8, kFew = 32, kOfABurst = 4;

    explicit Pieces(bool by_xdp) : by_xdp_(by_xdp) {}
    // How many chains that have ended are a piece, of so many that are on their way.
    unsigned size(unsigned in_flight) const {
        const unsigned least = !by_xdp_ ? kBySockets : in_flight > kSeveral ? kByXdp + 1 : kByXdp;
        return least + (in_flight - std::min(in_flight, kFew)) / kOfABurst;
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
    bool by_xdp_;
    unsigned owed_ = 0;
};

}  // namespace chainio::runtime_tool
