// Runs of bytes: slices, comparison, hashing, numbers in them.
#include <algorithm>
#include <cassert>

#include "bpf-templates/chainio_step.h"
#include "compiler/passes/lower_program.h"

namespace chainio::passes {

using checked::ExprKind;
using ir::BinOp;

void ProgramLowering::demand(ir::Space space, Operand offset, Operand length, std::uint32_t outcome) {
    bool nothing = length.is_imm && length.value == 0 && offset.is_imm && offset.value == 0;
    bool literal = space == ir::Space::literal && offset.is_imm && length.is_imm;
    if (!nothing && !literal && space != ir::Space::result) b_.check_range(space, offset, length, outcome);
}

void ProgramLowering::demand_le(Operand a, Operand b, std::uint32_t outcome) {
    if (a.is_imm && b.is_imm) {
        if (a.value > b.value) b_.add(ir::Fail{outcome});
        return;
    }
    if (a.is_imm && a.value == 0) return;
    b_.check(b_.binary(BinOp::ule, a, b), outcome);
}

ir::Slice ProgramLowering::bytes(const checked::Expr& e) { return eval(e).bytes; }

Value ProgramLowering::block_bytes() {
    Operand length = b_.input(ir::Input::block_length);
    return Value::of(ir::Slice{ir::Space::block, Operand::imm(0), length}, CIO_MAX_BLOCK);
}

Value ProgramLowering::bytes_value(const checked::Expr& e) {
    switch (e.kind) {
        case ExprKind::bytes_const: return Value::of(m_.literal(e.bytes), static_cast<std::uint32_t>(e.bytes.size()));
        case ExprKind::block_bytes: return block_bytes();
        case ExprKind::number_bytes: {
            const Operand at = Operand::imm(chain_->state(e.index).offset);
            return Value::of(ir::Slice{ir::Space::state, at, Operand::imm(e.type.max)}, e.type.max);
        }
        case ExprKind::bytes_slice: {
            Value base = eval(*e.kids[0]);
            Operand low = e.kids[1] ? scalar(*e.kids[1]) : Operand::imm(0);
            Operand high = e.kids.size() > 2 && e.kids[2] ? scalar(*e.kids[2]) : base.bytes.length;
            Value slice = bytes_slice(base, low, high);
            slice.max = std::min(slice.max, e.type.max);
            return slice;
        }
        default: return eval(e);
    }
}

Value ProgramLowering::bytes_slice(const Value& base, Operand low, Operand high) {
    // From here on the end is known to be inside of the bytes, and not before the begin.
    const std::optional<Operand> added = b_.bounds().added_to(low, high);
    const std::uint64_t most = added ? b_.bounds().most(*added) : b_.bounds().most_when_small(high);
    low = fixed(low);
    high = fixed(high);
    if (high != base.bytes.length) demand_le(high, base.bytes.length, CIO_MALFORMED);
    demand_le(low, high, CIO_MALFORMED);
    bool from_start = low.is_imm && low.value == 0;
    Operand offset = from_start ? base.bytes.offset : b_.binary(BinOp::add, base.bytes.offset, low);
    Operand length = from_start ? high : b_.binary(BinOp::sub, high, low);
    if (length.is_imm == false && low.is_imm && high.is_imm) length = Operand::imm(high.value - low.value);
    demand(base.bytes.space, offset, length, CIO_MALFORMED);
    std::uint32_t max = static_cast<std::uint32_t>(std::min<std::uint64_t>(base.max, most));
    if (length.is_imm) max = static_cast<std::uint32_t>(std::min<std::uint64_t>(max, length.value));
    return Value::of(ir::Slice{base.bytes.space, offset, length}, max);
}

Operand ProgramLowering::byte_at(const checked::Expr& e) {
    Value base = eval(*e.kids[0]);
    Operand index = scalar(*e.kids[1]);
    b_.check(b_.binary(BinOp::ult, index, base.bytes.length), CIO_MALFORMED);
    Operand at = b_.binary(BinOp::add, base.bytes.offset, index);
    demand(base.bytes.space, at, Operand::imm(1), CIO_MALFORMED);
    return b_.load(base.bytes.space, at, 1);
}

Operand ProgramLowering::compare(const Value& a, const Value& b) {
    std::uint32_t max = std::clamp<std::uint32_t>(std::min(a.max, b.max), 1, CIO_MAX_BLOCK);
    return b_.compare(a.bytes, b.bytes, max);
}

Operand ProgramLowering::compare_test(checked::Binary op, Operand order) {
    Operand zero = Operand::imm(0);
    switch (op) {
        case checked::Binary::lt: return b_.binary(BinOp::slt, order, zero);
        case checked::Binary::le: return b_.binary(BinOp::sle, order, zero);
        case checked::Binary::gt: return b_.binary(BinOp::slt, zero, order);
        case checked::Binary::ge: return b_.binary(BinOp::sle, zero, order);
        case checked::Binary::eq: return b_.binary(BinOp::eq, order, zero);
        case checked::Binary::ne: return b_.binary(BinOp::ne, order, zero);
        default: assert(false);
    }
    return zero;
}

Operand ProgramLowering::hash(const checked::Expr& e) {
    Value base = eval(*e.kids[0]);
    Operand seed = e.kids.size() > 1 && e.kids[1] ? scalar(*e.kids[1]) : Operand::imm(0);
    return b_.hash(static_cast<ir::HashAlgo>(e.index), base.bytes, seed, base.max);
}

Operand ProgramLowering::int_of_bytes(const checked::Expr& e) {
    ir::Slice slice = bytes(*e.kids[0]);
    ir::Reg r = b_.new_reg();
    b_.add(ir::IntOfBytes{r, slice, (e.value & 1) != 0, (e.value & 2) != 0});
    return Operand::reg(r);
}

Operand ProgramLowering::decimal_of_bytes(const checked::Expr& e) {
    ir::Slice slice = bytes(*e.kids[0]);
    ir::Reg r = b_.new_reg();
    b_.add(ir::ParseDecimal{r, slice, CIO_MALFORMED});
    return Operand::reg(r);
}

Value ProgramLowering::byte_found(const checked::Expr& e) {
    const Value data = eval(*e.kids[0]);
    const Operand byte = scalar(*e.kids[1]);
    const auto max = std::clamp<std::uint32_t>(data.max, 1, CIO_MAX_BLOCK);
    Value found = Value::of(b_.find_byte(data.bytes, byte, max));
    found.present = b_.binary(BinOp::ult, found.scalar, data.bytes.length);
    return found;
}

}  // namespace chainio::passes
