// What chains have marked places of files with (`mark` in a spec), so that they know a page again when a program reads
// it: a table that forgets when it is full. A mark is advice like all that chains say; one that is lost, or that is of
// what a file has held before, costs a fetch and never a byte.
//
// What is marked together mostly lies together, as the leaves of a tree do that was made in one go. Their marks lie on
// one page of memory for each 256 KiB of the file: a page that is touched for the first time takes microseconds, in
// which the program goes on.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "bpf-templates/chainio_step.h"
#include "runtime/umem/zeroed.h"

namespace chainio::shadow {

class Marks {
  public:
    static constexpr std::size_t kSets = std::size_t{1} << 14;
    static constexpr unsigned kWays = 4;              // of a set, which is a cache line
    static constexpr std::size_t kSetsTogether = 64;  // a page of memory

    Marks() : sets_(kSets) {}

    // `file`: by file_key(). `mark` 0 is none.
    void set(std::uint64_t file, std::uint64_t offset, std::uint64_t mark) {
        const std::uint64_t place = place_of(file, offset);
        Set& set = sets_[set_of(file, offset)];
        // The newest is first, and the oldest makes room.
        unsigned at = 0;
        while (at + 1 < kWays && set[at].place != place) at++;
        for (; at > 0; at--) set[at] = set[at - 1];
        set[0] = {place, mark};
    }
    // Its own, or that of its file (CIO_MARK_FILE); 0: none.
    std::uint64_t of(std::uint64_t file, std::uint64_t offset) const {
        const std::uint64_t own = own_of(file, offset);
        return own != 0 ? own : own_of(file, CIO_MARK_FILE);
    }
    std::uint64_t own_of(std::uint64_t file, std::uint64_t offset) const {
        const std::uint64_t place = place_of(file, offset);
        for (const Entry& entry : sets_[set_of(file, offset)])
            if (entry.place == place) return entry.mark;
        return 0;
    }

    // Places of 4 KiB in a row have sets in a row. Those within 4 KiB are elsewhere, and so begin the stretches: files
    // of larger pages use all sets alike.
    static std::size_t set_of(std::uint64_t file, std::uint64_t offset) {
        constexpr std::uint64_t kPage = 4096, kStretch = kSetsTogether * kPage;
        const std::uint64_t stretch = mixed(file, offset / kStretch * kPage + offset % kPage);
        const std::uint64_t page = stretch % (kSets / kSetsTogether);
        return page * kSetsTogether + (offset / kPage + (stretch >> 32)) % kSetsTogether;
    }

  private:
    struct Entry {
        std::uint64_t place, mark;
    };
    using Set = std::array<Entry, kWays>;
    static_assert(sizeof(Set) == 64);

    static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
        std::uint64_t mixed = (a ^ b * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ mixed >> 32) * 0x94d049bb133111ebu;
        return mixed ^ mixed >> 29;
    }
    // Never 0, which is an entry that nobody has written.
    static std::uint64_t place_of(std::uint64_t file, std::uint64_t offset) { return mixed(file, offset) | 1u << 31; }
    umem::ZeroedVector<Set> sets_;
};

}  // namespace chainio::shadow
