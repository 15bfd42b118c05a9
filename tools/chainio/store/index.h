// Writes the buckets of a store, first to last.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/chainio/store/files.h"
#include "tools/chainio/store/format.h"

namespace chainio::store {

class IndexWriter {
  public:
    IndexWriter(int fd, std::uint64_t at, std::uint64_t buckets)
        : fd_(fd), at_(at), buckets_(buckets), writer_(fd, at) {}
    // In order of their hashes. False when there are more for one bucket than the format lets follow one another.
    std::expected<bool, std::string> add(const Slot& slot);
    // The rest of the buckets; says where the last one ends.
    std::expected<std::uint64_t, std::string> finish();
    std::uint64_t items() const { return items_; }
    std::uint64_t overflow() const { return overflow_; }

  private:
    Done write_bucket();
    Done write_until(std::uint64_t bucket);

    int fd_;
    std::uint64_t at_, buckets_, current_ = 0, overflow_ = 0, items_ = 0;
    Writer writer_;
    std::vector<Slot> slots_;  // of the current bucket
};

}  // namespace chainio::store
