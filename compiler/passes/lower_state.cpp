// The chain's state: integers in slots of their width, bytes as a 32-bit length and the bytes.
#include <algorithm>

#include "bpf-templates/chainio_step.h"
#include "compiler/passes/lower_program.h"

namespace chainio::passes {

using ir::BinOp;
using ir::Space;

Value ProgramLowering::state(std::uint32_t index) {
    const ChainContext::StateSlot& slot = chain_->state(index);
    const checked::Type& type = chain_->chain.state[index].type;
    if (type.kind == checked::TypeKind::bytes) return load_bytes(slot);
    bool is_signed = type.kind == checked::TypeKind::integer && type.is_signed;
    return Value::of(b_.load(Space::state, Operand::imm(slot.offset), slot.width, false, is_signed));
}

Value ProgramLowering::load_bytes(const ChainContext::StateSlot& slot) {
    Operand length = b_.load(Space::state, Operand::imm(slot.offset), 4);
    Operand at = Operand::imm(slot.offset + 4);
    demand_le(length, Operand::imm(slot.capacity), CIO_MALFORMED);
    demand(Space::state, at, length, CIO_MALFORMED);
    return Value::of(ir::Slice{Space::state, at, length}, slot.capacity);
}

void ProgramLowering::store_bytes(const ChainContext::StateSlot& slot, const Value& v) {
    demand_le(v.bytes.length, Operand::imm(slot.capacity), CIO_OVERFLOW);
    Operand at = Operand::imm(slot.offset + 4);
    demand(Space::state, at, v.bytes.length, CIO_OVERFLOW);
    b_.add(ir::CopyToState{at, v.bytes, slot.capacity});
    b_.add(ir::StoreState{Operand::imm(slot.offset), 4, v.bytes.length});
}

void ProgramLowering::assign_state(std::uint32_t index, const Value& v) {
    const ChainContext::StateSlot& slot = chain_->state(index);
    if (v.kind == Value::Kind::bytes) return store_bytes(slot, v);
    b_.add(ir::StoreState{Operand::imm(slot.offset), slot.width, v.scalar});
}

void ProgramLowering::append_state(std::uint32_t index, const Value& v) {
    const ChainContext::StateSlot& slot = chain_->state(index);
    Operand length = b_.load(Space::state, Operand::imm(slot.offset), 4);
    demand_le(length, Operand::imm(slot.capacity), CIO_OVERFLOW);
    demand_le(v.bytes.length, Operand::imm(slot.capacity), CIO_OVERFLOW);
    Operand total = b_.binary(BinOp::add, length, v.bytes.length);
    demand_le(total, Operand::imm(slot.capacity), CIO_OVERFLOW);
    Operand at = b_.binary(BinOp::add, length, Operand::imm(slot.offset + 4));
    demand(Space::state, at, v.bytes.length, CIO_OVERFLOW);
    b_.add(ir::CopyToState{at, v.bytes, slot.capacity});
    b_.add(ir::StoreState{Operand::imm(slot.offset), 4, total});
}

void ProgramLowering::truncate_state(std::uint32_t index, Operand length) {
    const ChainContext::StateSlot& slot = chain_->state(index);
    demand_le(length, b_.load(Space::state, Operand::imm(slot.offset), 4), CIO_MALFORMED);
    b_.add(ir::StoreState{Operand::imm(slot.offset), 4, length});
}

// A `var` of type bytes lives in the state because nothing else holds bytes, and is empty when its step starts.
void ProgramLowering::clear_scratch() {
    if (chain_ == nullptr) return;
    for (std::uint32_t i = 0; i < chain_->chain.state.size(); i++)
        if (chain_->chain.state[i].scratch)
            b_.add(ir::StoreState{Operand::imm(chain_->state(i).offset), 4, Operand::imm(0)});
}

}  // namespace chainio::passes
