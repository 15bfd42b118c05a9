#include "compiler/ir/hash.h"

#include <xxhash.h>

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#endif

namespace chainio::ir {
namespace {

constexpr std::array<std::uint32_t, 256> crc32c_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < 256; byte++) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
        table[byte] = crc;
    }
    return table;
}
constexpr auto kCrcTable = crc32c_table();

std::uint64_t fnv1a(std::span<const std::uint8_t> bytes, std::uint64_t seed) {
    std::uint64_t hash = 0xcbf29ce484222325u ^ seed;
    for (std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
    return hash;
}

#if defined(__x86_64__)
// An artifact is summed at each start of a program, so the processor's own instruction is worth having.
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(std::span<const std::uint8_t> bytes, std::uint32_t seed) {
    std::uint64_t crc = static_cast<std::uint32_t>(~seed);
    for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data(), sizeof(word));
        crc = _mm_crc32_u64(crc, word);
    }
    for (std::uint8_t byte : bytes) crc = _mm_crc32_u8(static_cast<std::uint32_t>(crc), byte);
    return ~static_cast<std::uint32_t>(crc);
}

// Not __builtin_cpu_supports: that asks the processor ten things as the program starts, which a virtual machine traps
// one by one.
bool has_sse42() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_2) != 0;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::uint8_t> bytes, std::uint32_t seed) {
    std::uint32_t crc = ~seed;
    for (std::uint8_t byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ byte) & 0xff];
    return ~crc;
}

std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t seed) {
#if defined(__x86_64__)
    static const bool has_instruction = has_sse42();
    if (has_instruction) return crc32c_sse42(bytes, seed);
#endif
    return crc32c_by_table(bytes, seed);
}

std::uint64_t hash_bytes(HashAlgo algo, std::span<const std::uint8_t> bytes, std::uint64_t seed) {
    switch (algo) {
        case HashAlgo::crc32c: return crc32c(bytes, static_cast<std::uint32_t>(seed));
        case HashAlgo::xxh64: return XXH64(bytes.data(), bytes.size(), seed);
        case HashAlgo::fnv1a: return fnv1a(bytes, seed);
    }
    return 0;
}

}  // namespace chainio::ir
