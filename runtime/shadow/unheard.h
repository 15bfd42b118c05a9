// Reads that the kernel has begun for us and of whose end nobody hears. How many have not come is only known from
// others: after some in a row a read of the ring is begun, which is heard of, and when that has come those before it
// have, too.
#pragma once
#include <algorithm>
#include <cstdint>

namespace chainio::shadow {

class Unheard {
  public:
    static constexpr unsigned kInARow = 15;

    // `most`: reads under way at most, heard of or not.
    explicit Unheard(unsigned most) : most_(most), in_a_row_(std::min(kInARow, most / 4)) {}

    // Whether one more may be begun beside `heard` others. One place is left for a read that is heard of.
    bool may(unsigned heard) const { return begun_ - marked_ < in_a_row_ && heard + count() + 1 < most_; }
    void begun() { begun_++; }
    // A read that is heard of begins; come() is to be given what this returns.
    std::uint64_t mark() { return marked_ = begun_; }
    void come(std::uint64_t mark) { come_ = std::max(come_, mark); }
    // That may be under way.
    unsigned count() const { return static_cast<unsigned>(begun_ - come_); }

  private:
    unsigned most_, in_a_row_;
    std::uint64_t begun_ = 0, come_ = 0, marked_ = 0;
};

}  // namespace chainio::shadow
