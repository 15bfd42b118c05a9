// At which lengths of a read a chain that sees no byte has nothing to say, as far as is known: one on scans of a
// look-up's reads. They need not wake the server then.
//
// That is believed after kBelieved events at which it asked for nothing. A chain that asks for something at one read
// and for nothing at another one as long goes by something else as well, such as the place in the file: of it nothing
// is believed any more.
#pragma once
#include <algorithm>
#include <cstdint>

namespace chainio::shadow {

class Lengths {
  public:
    static constexpr std::uint32_t kBelieved = 64;

    void asked(std::uint32_t length) {
        shortest_ = std::min(shortest_, length);
        decisive_ = decisive_ && longest_ < shortest_;
    }
    void nothing(std::uint32_t length) {
        longest_ = std::max(longest_, length);
        events_ = std::min(events_ + 1, kBelieved);
        decisive_ = decisive_ && longest_ < shortest_;
    }
    // Shorter reads are of no use to it. 0: all may be.
    std::uint32_t least() const {
        return decisive_ && events_ == kBelieved && longest_ != UINT32_MAX ? longest_ + 1 : 0;
    }

  private:
    std::uint32_t longest_ = 0;            // at which it asked for nothing
    std::uint32_t shortest_ = UINT32_MAX;  // at which it asked for something
    std::uint32_t events_ = 0;
    bool decisive_ = true;
};

}  // namespace chainio::shadow
