#include "compiler/ir/bytes_ops.h"

#include <algorithm>
#include <cstring>

namespace chainio::ir {
namespace {

std::optional<VarintResult> read_leb128(Bytes bytes) {
    std::uint64_t value = 0;
    for (std::uint32_t i = 0; i < 10 && i < bytes.size(); i++) {
        if (i == 9 && bytes[i] > 1) return std::nullopt;
        value |= std::uint64_t{bytes[i] & 0x7fu} << (7 * i);
        if ((bytes[i] & 0x80) == 0) return VarintResult{value, i + 1};
    }
    return std::nullopt;
}

std::optional<VarintResult> read_sqlite(Bytes bytes) {
    std::uint64_t value = 0;
    for (std::uint32_t i = 0; i < 9 && i < bytes.size(); i++) {
        if (i == 8) return VarintResult{(value << 8) | bytes[i], 9};
        value = (value << 7) | (bytes[i] & 0x7fu);
        if ((bytes[i] & 0x80) == 0) return VarintResult{value, i + 1};
    }
    return std::nullopt;
}

}  // namespace

std::optional<VarintResult> read_varint(VarintKind kind, Bytes bytes) {
    if (kind == VarintKind::sqlite) return read_sqlite(bytes);
    auto result = read_leb128(bytes);
    if (result && kind == VarintKind::zigzag) result->value = (result->value >> 1) ^ (~(result->value & 1) + 1);
    return result;
}

std::uint64_t read_int(Bytes bytes, bool big_endian, bool is_signed) {
    std::uint64_t value = 0;
    std::size_t n = bytes.size();
    for (std::size_t i = 0; i < n; i++) value = (value << 8) | bytes[big_endian ? i : n - 1 - i];
    if (!is_signed || n == 0 || n == 8) return value;
    std::uint64_t sign = std::uint64_t{1} << (8 * n - 1);
    return (value ^ sign) - sign;
}

std::uint64_t compare_bytes(Bytes a, Bytes b) {
    std::size_t common = std::min(a.size(), b.size());
    int order = common == 0 ? 0 : std::memcmp(a.data(), b.data(), common);
    if (order != 0) return order < 0 ? ~std::uint64_t{0} : 1;
    if (a.size() == b.size()) return 0;
    return a.size() < b.size() ? ~std::uint64_t{0} : 1;
}

std::optional<std::uint64_t> parse_decimal(Bytes bytes) {
    if (bytes.empty() || bytes.size() > 20) return std::nullopt;
    std::uint64_t value = 0;
    for (std::uint8_t byte : bytes) {
        if (byte < '0' || byte > '9') return std::nullopt;
        if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
            __builtin_add_overflow(value, std::uint64_t{byte} - '0', &value))
            return std::nullopt;
    }
    return value;
}

}  // namespace chainio::ir
