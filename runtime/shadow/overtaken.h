// What a chain has asked for too late: its program has read it meanwhile, and has waited for the disk itself, before
// this server got the processor. It is in memory then, but for the program's wait, and says nothing of warm data.
//
// The program's read may be heard of before what was asked for is looked at, or behind that: it may wait in a ring. So
// the latest of both are kept. A program over warm data does not wait, and of one that does kLatest are more than what
// it reads until a look is over.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace chainio::shadow {

class Overtaken {
  public:
    static constexpr std::size_t kLatest = 256;

    // Reads of programs that have waited, so far.
    std::uint64_t waits() const { return waits_; }
    // A program has read this and has waited. Tells of the chains that had asked for what was then found in memory.
    template <typename Tell>
    void waited(std::uint64_t file, std::uint64_t offset, std::uint64_t length, Tell tell) {
        const Place read{.file = file, .begin = offset, .end = offset + length};
        reads_[waits_++ % kLatest] = read;
        for (std::size_t i = 0; i < std::min<std::uint64_t>(found_, kLatest); i++) {
            if (!pieces_[i].meets(read)) continue;
            tell(pieces_[i].chain);
            pieces_[i] = {};
        }
    }
    // Asked for when there had been so many waits, and found in memory now: whether a program has waited for it since.
    bool found(std::uint32_t chain, const std::uint64_t file, std::uint64_t offset, std::uint64_t length,
               std::uint64_t waits) {
        const Place piece{.file = file, .begin = offset, .end = offset + length, .chain = chain};
        const std::uint64_t since = std::min<std::uint64_t>(waits_ - std::min(waits, waits_), kLatest);
        for (std::uint64_t back = 1; back <= since; back++)
            if (piece.meets(reads_[(waits_ - back) % kLatest])) return true;
        pieces_[found_++ % kLatest] = piece;
        return false;
    }

  private:
    struct Place {
        std::uint64_t file = 0, begin = 0, end = 0;
        std::uint32_t chain = 0;
        bool meets(const Place& other) const { return file == other.file && begin < other.end && other.begin < end; }
    };
    std::array<Place, kLatest> reads_{}, pieces_{};
    std::uint64_t waits_ = 0, found_ = 0;
};

}  // namespace chainio::shadow
