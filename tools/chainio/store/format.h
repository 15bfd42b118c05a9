// A store of keys and values as it lies on the disk; docs/store.md says it byte for byte.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "compiler/ir/hash.h"

namespace chainio::store {

static_assert(std::endian::native == std::endian::little, "the structures below are the file's bytes");

inline constexpr std::size_t kMaxKey = 250;  // memcached's
inline constexpr std::size_t kMaxValue = std::size_t{16} << 20;
inline constexpr std::size_t kMaxWhole = 64000;  // of a value that lies in its item, so that both are read at once
inline constexpr std::size_t kPiece = 61440;     // of a longer one; the last piece is shorter
inline constexpr std::size_t kUnit = 16;         // items begin at multiples of it
inline constexpr std::size_t kPage = 4096;  // the pieces, the buckets and the end of the file do at multiples of this
inline constexpr std::size_t kSlots = 31;   // of a bucket
inline constexpr std::size_t kFill = 18;    // items a bucket, on average: one bucket in 550 needs another one
inline constexpr std::size_t kMostFurther = 6;  // buckets behind a full one, which the chain's `hops` reach
inline constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kMostBuckets = (std::uint64_t{1} << 32) - 1;

// A store with values in pieces has another version than one without: who knows whole values only would take the table
// for the value.
inline constexpr std::uint32_t kWhole = 1, kInPieces = 2;

struct Header {
    std::array<char, 8> magic{'C', 'h', 'a', 'i', 'n', 'K', 'V', '\n'};
    std::uint32_t version = kWhole;
    std::uint32_t crc = 0;  // of the header, with 0 in its place
    std::uint64_t seed = 0, items = 0, buckets = 0;
    std::uint64_t overflow = 0;  // further buckets, behind them
    std::uint64_t index = 0;     // where the first bucket is
    std::uint64_t length = 0;    // of the file
};
static_assert(sizeof(Header) == 64);

struct Slot {
    std::uint64_t hash = 0, place = 0;  // place: 40 bits of units, 24 bits of bytes
};
struct Bucket {
    std::uint32_t crc = 0;  // of what follows
    std::uint16_t used = 0, zero = 0;
    std::uint64_t following = 0;
    std::array<Slot, kSlots> slots{};
};
static_assert(sizeof(Bucket) == 512);

struct ItemHead {
    std::uint32_t crc = 0;  // of what follows, key and value included
    std::uint32_t value_size = 0, flags = 0;
    std::uint16_t key_size = 0;
    std::uint16_t pieces = 0;  // 0: the value follows the key; else a table of so many pieces does
    std::uint64_t cas = 0;
};
static_assert(sizeof(ItemHead) == 24);
inline constexpr std::size_t kMaxItem = sizeof(ItemHead) + kMaxKey + kMaxWhole;

// The beginning of the table; a sum of 4 bytes for each piece follows.
struct Pieces {
    std::uint64_t at = 0, length = 0;  // where in the file the first one is, and the bytes of all of them
};
static_assert(sizeof(Pieces) == 16);
constexpr std::uint64_t pieces_of(std::uint64_t length) { return (length + kPiece - 1) / kPiece; }
constexpr std::uint64_t table_size(std::uint64_t pieces) { return sizeof(Pieces) + pieces * sizeof(std::uint32_t); }
static_assert(sizeof(ItemHead) + kMaxKey + table_size(pieces_of(kMaxValue)) <= kPage && kMaxItem <= kMaxValue);

// Whether what a row takes at most, at `at` and behind it, has a place that a slot can name.
constexpr bool has_room(std::uint64_t at) { return (at + 2 * kPage + kMaxValue) / kUnit < kMostUnits; }

template <typename T>
std::span<const std::uint8_t> bytes_of(const T& value) {
    return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}
inline std::span<const std::uint8_t> bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

inline std::uint64_t hash_of(std::string_view key, std::uint64_t seed) {
    return ir::hash_bytes(ir::HashAlgo::xxh64, bytes_of(key), seed);
}
// Rises with the hash, so that items in order of their hashes are in order of their buckets.
inline std::uint64_t bucket_of(std::uint64_t hash, std::uint64_t buckets) { return (hash >> 32) * buckets >> 32; }
inline std::uint64_t place_of(std::uint64_t at, std::uint64_t bytes) { return at / kUnit | bytes << 40; }
inline std::uint64_t at_of(std::uint64_t place) { return (place & (kMostUnits - 1)) * kUnit; }
inline std::uint64_t bytes_at(std::uint64_t place) { return place >> 40; }
inline std::uint64_t padded(std::uint64_t length, std::uint64_t unit) { return (length + unit - 1) / unit * unit; }

inline std::uint32_t crc_of(Header header) {
    header.crc = 0;
    return ir::crc32c(bytes_of(header));
}
inline std::uint32_t crc_of(const Bucket& bucket) { return ir::crc32c(bytes_of(bucket).subspan(4)); }
inline std::uint32_t crc_of(const ItemHead& head, std::string_view key, std::string_view value) {
    return ir::crc32c(bytes_of(value), ir::crc32c(bytes_of(key), ir::crc32c(bytes_of(head).subspan(4))));
}

}  // namespace chainio::store
