#include "tools/chainio/store/items.h"

#include <algorithm>

namespace chainio::store {

std::expected<std::uint64_t, std::string> Items::add(const Row& row) {
    ItemHead head;
    head.key_size = static_cast<std::uint16_t>(row.key.size());
    head.value_size = static_cast<std::uint32_t>(row.value.size());
    head.flags = row.flags;
    // The same for the same content whenever the store is made, and never 0.
    head.cas = std::max<std::uint64_t>(hash_of(row.value, row.flags), 1);
    head.crc = crc_of(head, row.key, row.value);
    const std::uint64_t at = writer_.position(), size = sizeof head + row.key.size() + row.value.size();
    for (const auto& bytes : {bytes_of(head), bytes_of(row.key), bytes_of(row.value)})
        if (auto added = writer_.add(bytes); !added) return std::unexpected(added.error());
    writer_.pad(kUnit);
    return place_of(at, size);
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
        const std::uint64_t size = sizeof head + head.key_size + head.value_size;
        if (auto taken = take(key, place_of(at, size)); !taken) return taken;
        at += padded(size, kUnit);
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
