// The B+-tree that tools/bench inkernel looks keys up in: full, of 512-byte pages, as deep as the chain of reads shall
// be long. A page holds its kind (0 interior, 1 leaf), a count, keys in order, the children's page numbers, and in a
// leaf the values.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "tests/bench/lookup/contender.h"

namespace chainio::bench {

constexpr std::uint32_t kTreePage = 512;

struct TreeShape {
    unsigned depth = 6;   // pages from the root to a leaf
    unsigned fanout = 8;  // children of an interior page
    std::uint64_t keys() const;
};
TreeShape shape_of(unsigned depth);

std::uint64_t tree_key(std::uint64_t rank);         // the keys are those of 0 to keys() - 1
std::uint64_t tree_value_hash(std::uint64_t rank);  // hash_value() of its value

// Writes the whole tree to the start of a file or a disk, and out of the page cache.
std::expected<void, std::string> write_tree(const std::string& path, TreeShape shape);

// As a person would read a page by hand.
Descent descend_tree(std::span<const std::uint8_t> page, std::uint32_t number, std::uint64_t key);

}  // namespace chainio::bench
