// The operations on runs of bytes as the interpreter computes them; ranges have been checked by the caller.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "compiler/ir/ir.h"

namespace chainio::ir {

using Bytes = std::span<const std::uint8_t>;

struct VarintResult {
    std::uint64_t value;
    std::uint32_t length;
};
std::optional<VarintResult> read_varint(VarintKind,
                                        Bytes);  // from the first byte; nothing when it does not end or does not fit
std::uint64_t read_int(Bytes, bool big_endian, bool is_signed);  // of 0..8 bytes
std::uint64_t compare_bytes(Bytes a, Bytes b);                   // -1, 0, 1
std::optional<std::uint64_t> parse_decimal(Bytes);

}  // namespace chainio::ir
