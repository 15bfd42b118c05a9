// Sorts more entries than memory holds: sorted runs in a scratch file, merged when they are read.
#pragma once
#include <compare>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "tools/chainio/store/files.h"

namespace chainio::store {

struct Entry {
    std::uint64_t hash = 0, place = 0, number = 0;
    friend auto operator<=>(const Entry& a, const Entry& b) {
        return a.hash != b.hash ? a.hash <=> b.hash : a.number <=> b.number;
    }
    friend bool operator==(const Entry&, const Entry&) = default;
};

class Sorter {
  public:
    // Takes the scratch file over. `memory` in bytes bounds what is held at once.
    Sorter(int scratch, std::size_t memory);
    ~Sorter();
    Sorter(const Sorter&) = delete;
    Sorter& operator=(const Sorter&) = delete;

    Done add(const Entry& entry);
    std::uint64_t count() const { return count_; }
    // After the last add(): the entries come in order.
    Done finish();
    std::expected<bool, std::string> next(Entry& entry);
    void clear();

  private:
    struct Run {
        std::uint64_t from = 0, left = 0;  // in the scratch file: entries that are not in memory
        std::vector<Entry> piece;
        std::size_t at = 0;
    };
    void take_room();
    Done spill();
    Done refill(Run& run) const;
    bool behind(std::size_t a, std::size_t b) const;

    int scratch_;
    std::size_t most_;  // entries in memory
    std::uint64_t count_ = 0, spilled_ = 0;
    std::vector<Entry> entries_;
    std::vector<Run> runs_;
    std::vector<std::size_t> heap_;  // of runs, the one with the least entry first
    std::size_t piece_ = 0;
};

}  // namespace chainio::store
