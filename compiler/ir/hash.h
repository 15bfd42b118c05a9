// The hashes of the language as the interpreter computes them; crc32c also guards the serialised form.
#pragma once
#include <cstdint>
#include <span>

#include "compiler/ir/ir.h"

namespace chainio::ir {

std::uint32_t crc32c_by_table(std::span<const std::uint8_t> bytes, std::uint32_t seed = 0);  // on any processor
std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t seed = 0);
std::uint64_t hash_bytes(HashAlgo, std::span<const std::uint8_t> bytes, std::uint64_t seed);

}  // namespace chainio::ir
