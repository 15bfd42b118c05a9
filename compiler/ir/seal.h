// The checksum behind the code that an artifact carries: four bytes, the CRC-32C of all before them, little-endian. It
// tells a damaged file, not a forged one.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chainio::ir {

std::vector<std::uint8_t> sealed(std::vector<std::uint8_t> code);
// The code without its checksum; nullopt when that does not match.
std::optional<std::span<const std::uint8_t>> unsealed(std::span<const std::uint8_t> section);

}  // namespace chainio::ir
