// Reads every bucket and item of a store and says what is wrong with them.
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

namespace chainio::store {

struct Checked {
    std::uint64_t items = 0, buckets = 0, overflow = 0, bytes = 0;
    bool of_ours = false;               // it begins as a store does
    std::vector<std::string> problems;  // the first kMostProblems, each with its place; empty: the store is whole
    std::uint64_t more_problems = 0;    // than those
};

// An error: the file could not be read at all.
std::expected<Checked, std::string> check(const std::string& path);

}  // namespace chainio::store
