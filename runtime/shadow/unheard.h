// Reads that the kernel has begun for us and of whose end nobody hears. How many have not come is only known from
// others: after some in a row, or so many bytes, one is begun that is heard of, and when that has come those before it
// have, too.
#pragma once
#include <algorithm>
#include <cstdint>

namespace chainio::shadow {

class Unheard {
  public:
    static constexpr unsigned kInARow = 15;
    static constexpr std::uint64_t kBytesInARow = std::uint64_t{2} << 20;

    // What was begun up to some moment.
    struct Begun {
        std::uint64_t reads = 0, bytes = 0;
    };

    // `most`: reads under way at most, heard of or not.
    explicit Unheard(unsigned most) : most_(most), in_a_row_(std::min(kInARow, most / 4)) {}

    // Whether one more may be begun beside `heard` others. One place is left for a read that is heard of.
    bool may(unsigned heard, std::uint64_t bytes) const {
        return begun_.reads - marked_.reads < in_a_row_ && begun_.bytes - marked_.bytes + bytes <= kBytesInARow &&
               heard + count() + 1 < most_;
    }
    void begun(std::uint64_t bytes) {
        begun_.reads++;
        begun_.bytes += bytes;
    }
    // A read that is heard of begins; come() is to be given what this returns.
    Begun mark() { return marked_ = begun_; }
    void come(const Begun& mark) {
        if (mark.reads > come_.reads) come_ = mark;
    }
    // That may be under way.
    unsigned count() const { return static_cast<unsigned>(begun_.reads - come_.reads); }
    std::uint64_t bytes() const { return begun_.bytes - come_.bytes; }

  private:
    unsigned most_, in_a_row_;
    Begun begun_, come_, marked_;
};

}  // namespace chainio::shadow
