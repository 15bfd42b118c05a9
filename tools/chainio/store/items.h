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
    bool room() const { return has_room(writer_.position()); }
    bool any_in_pieces() const { return any_in_pieces_; }
    // Writes an item, and the pieces of a long value behind it, and says where it is.
    std::expected<std::uint64_t, std::string> add(const Row& row);
    // The rest of them; says where the index begins.
    std::expected<std::uint64_t, std::string> finish();

    // After finish(): the key and the place of each, as they were added.
    Done each(const std::function<Done(std::string_view key, std::uint64_t place)>& take) const;
    Done read_key(std::uint64_t place, std::string& key) const;

  private:
    Done read_head(std::uint64_t at, ItemHead& head, std::string& key) const;
    Done add_pieces(std::string_view value);

    int fd_;
    Writer writer_;
    std::uint64_t end_ = 0;
    bool any_in_pieces_ = false;
};

}  // namespace chainio::store
