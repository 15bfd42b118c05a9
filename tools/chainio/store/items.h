// The items of a store that is being made, one behind the other.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "tools/chainio/store/files.h"
#include "tools/chainio/store/format.h"
#include "tools/chainio/store/source.h"

namespace chainio::store {

class Items {
  public:
    explicit Items(int fd) : fd_(fd), writer_(fd, kPage) {}
    // Whether the longest item still has a place that a slot can name.
    bool room() const { return (writer_.position() + padded(kMaxItem, kUnit)) / kUnit < kMostUnits; }
    // Writes an item and says where it is.
    std::expected<std::uint64_t, std::string> add(const Row& row);
    // The rest of them; says where the index begins.
    std::expected<std::uint64_t, std::string> finish();

    // After finish(): the key and the place of each, as they were added.
    Done each(const std::function<Done(std::string_view key, std::uint64_t place)>& take) const;
    Done read_key(std::uint64_t place, std::string& key) const;

  private:
    Done read_head(std::uint64_t at, ItemHead& head, std::string& key) const;

    int fd_;
    Writer writer_;
    std::uint64_t end_ = 0;
};

}  // namespace chainio::store
