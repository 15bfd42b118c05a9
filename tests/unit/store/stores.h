// What the tests of stores put into them, and how they read them.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/store/store_test.h"
#include "tools/chainio/store/format.h"

namespace chainio::store {

// Another reader than check(): what the page about the format says, over the bytes in memory.
inline std::map<std::string, std::pair<std::uint32_t, std::string>> items_of(const std::string& bytes) {
    std::map<std::string, std::pair<std::uint32_t, std::string>> out;
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    for (std::uint64_t i = 0; i < header.buckets + header.overflow; i++) {
        Bucket bucket;
        std::memcpy(&bucket, bytes.data() + header.index + i * 512, 512);
        for (unsigned k = 0; k < bucket.used; k++) {
            const std::uint64_t at = (bucket.slots[k].place & 0xffffffffffu) * 16;
            ItemHead head;
            std::memcpy(&head, bytes.data() + at, sizeof head);
            std::uint64_t value[2] = {at + 24 + head.key_size, head.value_size};
            if (head.pieces != 0) std::memcpy(value, bytes.data() + value[0], sizeof value);
            out[bytes.substr(at + 24, head.key_size)] = {head.flags, bytes.substr(value[0], value[1])};
        }
    }
    return out;
}

inline std::vector<Rows::Made> many(unsigned count) {
    std::vector<Rows::Made> rows;
    for (unsigned i = 0; i < count; i++)
        rows.push_back({"key" + std::to_string(i), std::string(i % 700, static_cast<char>('a' + i % 26)), i});
    return rows;
}

// Two keys whose XXH64 with this seed is the same: the second stripe undoes what the first one changes. XXH64's first
// accumulator takes 8 bytes of each stripe: v = rotl(v + bytes * P2, 31) * P1.
inline std::pair<std::string, std::string> same_hash(std::uint64_t seed, std::uint64_t salt) {
    constexpr std::uint64_t kP1 = 0x9E3779B185EBCA87u, kP2 = 0xC2B2AE3D27D4EB4Fu;
    std::uint64_t inverse = kP2;
    for (int i = 0; i < 6; i++) inverse *= 2 - kP2 * inverse;
    const auto round = [](std::uint64_t v, std::uint64_t bytes) { return std::rotl(v + bytes * kP2, 31) * kP1; };
    const std::uint64_t start = seed + kP1 + kP2;
    const auto key = [](std::uint64_t first, std::uint64_t second) {
        std::string text(64, 'k');
        std::memcpy(text.data(), &first, 8);
        std::memcpy(text.data() + 32, &second, 8);
        return text;
    };
    const std::uint64_t second = 77;
    const std::uint64_t other = second + (round(start, salt) - round(start, salt + 1)) * inverse;
    return {key(salt, second), key(salt + 1, other)};
}

}  // namespace chainio::store
