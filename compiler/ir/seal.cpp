#include "compiler/ir/seal.h"

#include <cstddef>

#include "compiler/ir/hash.h"

namespace chainio::ir {
namespace {

constexpr std::size_t kSealBytes = 4;

}  // namespace

std::vector<std::uint8_t> sealed(std::vector<std::uint8_t> code) {
    const std::uint32_t sum = crc32c(code);
    for (std::size_t i = 0; i < kSealBytes; i++) code.push_back(static_cast<std::uint8_t>(sum >> (8 * i)));
    return code;
}

std::optional<std::span<const std::uint8_t>> unsealed(std::span<const std::uint8_t> section) {
    if (section.size() < kSealBytes) return std::nullopt;
    const auto code = section.first(section.size() - kSealBytes);
    const auto seal = section.last(kSealBytes);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < kSealBytes; i++) sum |= std::uint32_t{seal[i]} << (8 * i);
    if (sum != crc32c(code)) return std::nullopt;
    return code;
}

}  // namespace chainio::ir
