#include "compiler/passes/lower_context.h"

#include <algorithm>

namespace chainio::passes {

using checked::ExprKind;
using checked::TypeKind;

ModuleContext::ModuleContext(const checked::Module& module) : checked(module) {}

ir::Slice ModuleContext::literal(std::string_view bytes) {
    auto found = literals_.find(bytes);
    if (found == literals_.end()) {
        found = literals_.emplace(bytes, static_cast<std::uint32_t>(out.literals.size())).first;
        out.literals.insert(out.literals.end(), bytes.begin(), bytes.end());
    }
    return {ir::Space::literal, ir::Operand::imm(found->second), ir::Operand::imm(bytes.size())};
}

bool is_header_field(const checked::Field& field) {
    bool scalar = field.type.kind == TypeKind::integer || field.type.kind == TypeKind::boolean;
    return scalar && field.kind != checked::Field::Kind::padding && !field.name.empty();
}

std::uint16_t ModuleContext::header_ordinal(std::uint32_t file_class, std::uint32_t field) const {
    auto record = static_cast<std::size_t>(checked.files[file_class].header_record);
    const auto& fields = checked.records[record].fields;
    return static_cast<std::uint16_t>(std::count_if(fields.begin(), fields.begin() + field, is_header_field));
}

ChainContext::ChainContext(ModuleContext& m, const checked::Chain& c) : module(m), chain(c) {
    out.name = c.name;
    out.mode = c.mode;
    out.source = static_cast<std::uint16_t>(c.source);
    out.priority_class = c.priority_class;
    out.hops = c.hops;
    switch (c.returns.kind) {
        case TypeKind::integer:
        case TypeKind::boolean:
            out.result = ir::ResultKind::scalar;
            out.result_bits = c.returns.kind == TypeKind::boolean ? 1 : c.returns.bits;
            out.result_signed = c.returns.kind == TypeKind::integer && c.returns.is_signed;
            break;
        case TypeKind::bytes:
            out.result = c.emits ? ir::ResultKind::none : ir::ResultKind::slice;
            out.result_max = c.returns.max;
            break;
        default: break;
    }
    add_params();
    add_state();
}

void ChainContext::add_params() {
    std::uint16_t files = 0;
    for (const checked::Param& p : chain.params) {
        ir::Param param{};
        param.kind = p.kind;
        param.name = p.name;
        if (p.kind == ir::Param::Kind::file) {
            param.slot = files++;
            param.file_class = static_cast<std::uint16_t>(p.file_class);
        } else {
            param.slot = out.arg_slots;
            param.bits = p.type.kind == TypeKind::boolean ? 1 : p.type.bits;
            param.is_signed = p.type.is_signed;
            if (p.kind == ir::Param::Kind::bytes) param.max = p.type.max;
            out.arg_slots += p.kind == ir::Param::Kind::bytes ? 2 : 1;
        }
        out.params.push_back(std::move(param));
    }
}

void ChainContext::add_state() {
    for (const checked::StateVar& var : chain.state) {
        StateSlot slot;
        if (var.type.kind == TypeKind::bytes) {
            slot = bytes_slot(var.type.max);
        } else {
            slot.width = var.type.kind == TypeKind::boolean ? 1 : static_cast<std::uint8_t>(var.type.bits / 8);
            std::uint32_t align = slot.width > 4 ? 8 : slot.width > 2 ? 4 : slot.width;
            slot.offset = (out.state_bytes + align - 1) / align * align;
            out.state_bytes = slot.offset + slot.width;
        }
        state_.push_back(slot);
        if (!var.initial) continue;
        if (var.initial->kind == ExprKind::int_const || var.initial->kind == ExprKind::bool_const) {
            set_initial(slot.offset, var.initial->value, slot.width);
        } else if (var.initial->kind == ExprKind::bytes_const) {
            const std::string& text = var.initial->bytes;
            set_initial(slot.offset, text.size(), 4);
            for (std::size_t i = 0; i < text.size() && i < slot.capacity; i++)
                set_initial(slot.offset + 4 + static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(text[i]), 1);
        }
    }
}

void ChainContext::set_initial(std::uint32_t offset, std::uint64_t value, std::uint32_t width) {
    if (value == 0 && width > 1) return;
    out.initial_state.resize(std::max<std::size_t>(out.initial_state.size(), offset + width));
    for (std::uint32_t i = 0; i < width; i++)
        out.initial_state[offset + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

ChainContext::StateSlot ChainContext::bytes_slot(std::uint32_t capacity) {
    StateSlot slot;
    slot.offset = (out.state_bytes + 3) / 4 * 4;
    slot.width = 4;
    slot.capacity = capacity;
    out.state_bytes = slot.offset + 4 + capacity;
    return slot;
}

std::uint16_t ChainContext::header_slot(std::uint32_t file, std::uint32_t field) {
    auto [at, inserted] = header_slots_.try_emplace({file, field}, out.arg_slots);
    if (!inserted) return at->second;
    std::uint32_t file_class = 0;
    for (const ir::Param& p : out.params)
        if (p.kind == ir::Param::Kind::file && p.slot == file) file_class = p.file_class;
    const bool of_the_header = field < ir::kLastMarkField;
    const std::uint16_t ordinal =
        of_the_header ? module.header_ordinal(file_class, field) : static_cast<std::uint16_t>(field);
    out.header_args.push_back({out.arg_slots, static_cast<std::uint16_t>(file), ordinal});
    out.arg_slots++;
    return at->second;
}

}  // namespace chainio::passes
