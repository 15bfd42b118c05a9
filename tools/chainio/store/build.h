// Makes a store: the items as they come, then the index in order of their hashes, in bounded memory.
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "tools/chainio/store/source.h"

namespace chainio::store {

enum class Duplicates : std::uint8_t { refuse, first, last };

struct BuildOptions {
    std::string path;
    Duplicates duplicates = Duplicates::refuse;
    std::uint64_t seed = 0;
    bool allow_empty = false;                     // else a source that ended early could replace a good store
    std::size_t memory = std::size_t{256} << 20;  // for sorting the index
};

struct Built {
    std::uint64_t items = 0, dropped = 0, buckets = 0, overflow = 0, bytes = 0;
    std::uint64_t seed = 0;         // the one that was asked for, or one that keeps all hashes apart
    std::vector<std::string> lost;  // of what the store before had, other than items
};

struct BuildFailure {
    std::vector<std::string> problems;  // at most kMostProblems
    bool system = false;
};
inline constexpr std::size_t kMostProblems = 10;

// The file at options.path appears, or is replaced, when the store is whole; else it stays as it was.
std::expected<Built, BuildFailure> build(Source& source, const BuildOptions& options);

}  // namespace chainio::store
