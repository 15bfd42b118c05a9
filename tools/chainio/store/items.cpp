#include "tools/chainio/store/items.h"

#include <algorithm>

namespace chainio::store {
namespace {

// What an item has in place of a value that lies in pieces from `at` on.
std::string table_of(std::string_view value, std::uint64_t at) {
    const Pieces pieces{at, value.size()};
    std::string table(reinterpret_cast<const char*>(&pieces), sizeof pieces);
    for (std::size_t from = 0; from < value.size(); from += kPiece) {
        const std::uint32_t crc = ir::crc32c(bytes_of(value.substr(from, kPiece)));
        table.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    }
    return table;
}

}  // namespace

std::expected<std::uint64_t, std::string> Items::add(const Row& row) {
    ItemHead head;
    head.key_size = static_cast<std::uint16_t>(row.key.size());
    head.flags = row.flags;
    const std::uint64_t at = writer_.position();
    std::string table;
    std::string_view held = row.value;
    if (row.value.size() > kMaxWhole) {
        head.pieces = static_cast<std::uint16_t>(pieces_of(row.value.size()));
        table = table_of(row.value, padded(at + sizeof head + row.key.size() + table_size(head.pieces), kPage));
        held = table;
    }
    head.value_size = static_cast<std::uint32_t>(held.size());
    // The same for the same content whenever the store is made, and never 0.
    head.cas = std::max<std::uint64_t>(hash_of(row.value, row.flags), 1);
    head.crc = crc_of(head, row.key, held);
    for (const auto& bytes : {bytes_of(head), bytes_of(row.key), bytes_of(held)})
        if (auto added = writer_.add(bytes); !added) return std::unexpected(added.error());
    if (head.pieces != 0) {
        if (auto added = add_pieces(row.value); !added) return std::unexpected(added.error());
    }
    writer_.pad(kUnit);
    return place_of(at, sizeof head + row.key.size() + held.size());
}

// One by one, so that not all of them wait in memory to be written.
Done Items::add_pieces(std::string_view value) {
    any_in_pieces_ = true;
    writer_.pad(kPage);
    for (std::size_t from = 0; from < value.size(); from += kPiece)
        if (auto added = writer_.add(bytes_of(value.substr(from, kPiece))); !added) return added;
    return {};
}

std::expected<std::uint64_t, std::string> Items::finish() {
    end_ = writer_.position();
    writer_.pad(kPage);
    if (auto flushed = writer_.flush(); !flushed) return std::unexpected(flushed.error());
    return writer_.position();
}

Done Items::each(const std::function<Done(std::string_view key, std::uint64_t place)>& take) const {
    std::string key;
    for (std::uint64_t at = kPage; at < end_;) {
        ItemHead head;
        if (auto read = read_head(at, head, key); !read) return read;
        const std::uint64_t table = at + sizeof head + head.key_size, size = table + head.value_size - at;
        if (auto taken = take(key, place_of(at, size)); !taken) return taken;
        Pieces behind{at + size, 0};
        if (head.pieces != 0) {
            auto read = read_at(fd_, {reinterpret_cast<std::uint8_t*>(&behind), sizeof behind}, table);
            if (!read) return read;
        }
        at = padded(behind.at + behind.length, kUnit);
    }
    return {};
}

Done Items::read_key(std::uint64_t place, std::string& key) const {
    ItemHead head;
    return read_head(at_of(place), head, key);
}

Done Items::read_head(std::uint64_t at, ItemHead& head, std::string& key) const {
    if (auto read = read_at(fd_, {reinterpret_cast<std::uint8_t*>(&head), sizeof head}, at); !read) return read;
    key.resize(head.key_size);
    return read_at(fd_, {reinterpret_cast<std::uint8_t*>(key.data()), key.size()}, at + sizeof head);
}

}  // namespace chainio::store
