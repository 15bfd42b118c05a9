#include "compiler/ir/arith.h"

#include <algorithm>

namespace chainio::ir {

std::uint64_t evaluate(UnOp op, std::uint64_t a) {
    auto sext = []<class S>(S v) { return static_cast<std::uint64_t>(static_cast<std::int64_t>(v)); };
    switch (op) {
        case UnOp::neg: return 0 - a;
        case UnOp::bit_not: return ~a;
        case UnOp::logical_not: return a == 0;
        case UnOp::sext8: return sext(static_cast<std::int8_t>(a));
        case UnOp::sext16: return sext(static_cast<std::int16_t>(a));
        case UnOp::sext32: return sext(static_cast<std::int32_t>(a));
        case UnOp::zext8: return a & 0xff;
        case UnOp::zext16: return a & 0xffff;
        case UnOp::zext32: return a & 0xffffffff;
        case UnOp::bswap16: return __builtin_bswap16(static_cast<std::uint16_t>(a));
        case UnOp::bswap32: return __builtin_bswap32(static_cast<std::uint32_t>(a));
        case UnOp::bswap64: return __builtin_bswap64(a);
    }
    return 0;
}

std::uint64_t evaluate(BinOp op, std::uint64_t a, std::uint64_t b) {
    auto sa = static_cast<std::int64_t>(a), sb = static_cast<std::int64_t>(b);
    switch (op) {
        case BinOp::add: return a + b;
        case BinOp::sub: return a - b;
        case BinOp::mul: return a * b;
        case BinOp::udiv: return b == 0 ? 0 : a / b;
        case BinOp::umod: return b == 0 ? a : a % b;
        case BinOp::bit_and: return a & b;
        case BinOp::bit_or: return a | b;
        case BinOp::bit_xor: return a ^ b;
        case BinOp::shl: return a << (b & 63);
        case BinOp::lshr: return a >> (b & 63);
        case BinOp::ashr: return static_cast<std::uint64_t>(sa >> (b & 63));
        case BinOp::eq: return a == b;
        case BinOp::ne: return a != b;
        case BinOp::ult: return a < b;
        case BinOp::ule: return a <= b;
        case BinOp::slt: return sa < sb;
        case BinOp::sle: return sa <= sb;
        case BinOp::umin: return std::min(a, b);
        case BinOp::umax: return std::max(a, b);
    }
    return 0;
}

}  // namespace chainio::ir
