// How much a randomised test does: a short, seeded form in tools/check, the full count in tools/soak (CHAINIO_SOAK=1).
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>

namespace chainio::tests {

inline bool soaking() {
    const char* soak = std::getenv("CHAINIO_SOAK");
    return soak != nullptr && std::string(soak) == "1";
}

inline std::uint64_t soak_count(std::uint64_t in_check, std::uint64_t in_soak) {
    return soaking() ? in_soak : in_check;
}

// CHAINIO_SEED repeats a run; a failing test prints the seed that it used.
inline std::uint64_t soak_seed() {
    const char* seed = std::getenv("CHAINIO_SEED");
    return seed == nullptr ? 20261121 : std::strtoull(seed, nullptr, 0);
}

}  // namespace chainio::tests
