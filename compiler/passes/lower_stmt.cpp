// Statements.
#include <algorithm>
#include <cassert>
#include <span>

#include "bpf-templates/chainio_step.h"
#include "compiler/passes/lower_program.h"

namespace chainio::passes {

using checked::StmtKind;
using ir::BinOp;

void ProgramLowering::block(const checked::Block& statements) {
    for (const checked::StmtPtr& s : statements) statement(*s);
}

void ProgramLowering::statement(const checked::Stmt& s) {
    b_.line = s.line;
    switch (s.kind) {
        case StmtKind::let: return let(s);
        case StmtKind::assign: return assign(s);
        case StmtKind::assign_state: return assign_state(s.index, eval(*s.value));
        case StmtKind::append_state: return append_state(s.index, eval(*s.value));
        case StmtKind::truncate_state: return truncate_state(s.index, scalar(*s.value));
        case StmtKind::if_: return if_statement(s);
        case StmtKind::when: return when(s);
        case StmtKind::for_:
            if (s.value2) return for_range(s);
            return iterate(*s.value, s.max, [&](Value v) {
                bind(s.index, std::move(v));
                block(s.body);
            });
        case StmtKind::next: return next(s);
        case StmtKind::return_: return return_(s);
        case StmtKind::emit: return emit(s);
        case StmtKind::fail: return b_.add(ir::Fail{s.index});
        case StmtKind::prefetch: return prefetch(s);
        case StmtKind::prefetch_via: return prefetch_via(s);
        case StmtKind::reply: return reply(s);
        case StmtKind::skip: return b_.add(ir::Skip{scalar(*s.value)});
        case StmtKind::break_: return b_.add(ir::Break{});
        case StmtKind::continue_: return b_.add(ir::Continue{});
    }
}

void ProgramLowering::bind(std::uint32_t index, Value v) {
    bool is_mutable = index < local_types_->size() && (*local_types_)[index].is_mutable;
    v.present.reset();
    if (v.kind == Value::Kind::scalar) {
        if (is_mutable) {
            v.variable = b_.variable(v.scalar, (*local_types_)[index].name);
        } else {
            v.scalar = fixed(v.scalar);
        }
    }
    if (index >= env_->size()) env_->resize(index + 1);
    (*env_)[index] = std::move(v);
}

void ProgramLowering::let(const checked::Stmt& s) {
    Value v = s.value ? eval(*s.value) : Value::of(Operand::imm(0));
    if (v.present) {
        if_(*v.present, {}, [&] { block(s.otherwise); });
        b_.line = s.line;
    }
    bind(s.index, std::move(v));
}

void ProgramLowering::assign(const checked::Stmt& s) {
    Operand v = scalar(*s.value);
    b_.assign(*(*env_)[s.index].variable, v);
}

// `if c { … goto } else { … }`: what follows a branch that does not come back needs no nesting, so that long matches
// stay flat.
void ProgramLowering::if_statement(const checked::Stmt& s) {
    Operand condition = scalar(*s.value);
    auto [yes, yes_ends] = b_.capture([&] { scoped([&] { block(s.body); }); });
    b_.line = s.line;
    if (yes_ends) {
        b_.if_(condition, [&] { b_.splice(std::move(yes)); });
        return block(s.otherwise);
    }
    b_.if_(condition, [&] { b_.splice(std::move(yes)); }, [&] { scoped([&] { block(s.otherwise); }); });
}

void ProgramLowering::when(const checked::Stmt& s) {
    Value v = eval(*s.value);
    Operand condition = v.present ? *v.present : v.scalar;
    if_(condition, [&] {
        if (s.index2 != 0) bind(s.index, v);
        block(s.body);
    });
}

void ProgramLowering::for_range(const checked::Stmt& s) {
    Operand low = fixed(scalar(*s.value)), high = scalar(*s.value2);
    Operand ascending = b_.binary(BinOp::ult, low, high);
    Operand count = low.is_imm && high.is_imm ? Operand::imm(low.value < high.value ? high.value - low.value : 0)
                                              : b_.select(ascending, b_.binary(BinOp::sub, high, low), Operand::imm(0));
    loop(count, s.max, [&](Operand i) {
        bind(s.index, Value::of(b_.binary(BinOp::add, low, i)));
        block(s.body);
    });
}

std::uint16_t ProgramLowering::file_slot(std::uint32_t param) const { return chain_->out.params[param].slot; }

void ProgramLowering::queue(std::uint32_t step, std::uint32_t file, Operand at, Operand length, Operand tag) {
    b_.add(ir::Next{static_cast<std::uint16_t>(step), file_slot(file), at, length, tag});
}

void ProgramLowering::next(const checked::Stmt& s) {
    const checked::Step& target = chain_->chain.steps[s.index];
    Operand at = scalar(s.value ? *s.value : *target.at);
    Operand length = scalar(s.value2 ? *s.value2 : *target.length);
    Operand tag = s.value3 ? scalar(*s.value3) : Operand::imm(0);
    queue(s.index, s.index2, at, length, tag);
    if (s.ends) b_.add(ir::End{});
}

void ProgramLowering::return_(const checked::Stmt& s) {
    if (!s.value) return b_.add(ir::Return{});
    Value v = eval(*s.value);
    if (v.kind != Value::Kind::bytes) return b_.add(ir::Return{ir::ResultKind::scalar, v.scalar, {}});
    if (v.max > chain_->out.result_max) demand_le(v.bytes.length, Operand::imm(chain_->out.result_max), CIO_OVERFLOW);
    if (chain_->out.result == ir::ResultKind::none) {
        b_.add(ir::EmitBytes{v.bytes, v.max, chain_->out.result_max});
        return b_.add(ir::Return{});
    }
    b_.add(ir::Return{ir::ResultKind::slice, {}, v.bytes});
}

void ProgramLowering::emit(const checked::Stmt& s) {
    // A pipeline's `project` is a loop whose body emits, so the values are plain ones here.
    for (const checked::ExprPtr& value : s.values) emit_value(*value);
}

void ProgramLowering::emit_value(const checked::Expr& e) {
    Value v = eval(e);
    std::uint32_t limit = chain_->out.result_max;
    if (v.kind == Value::Kind::bytes) return b_.add(ir::EmitBytes{v.bytes, v.max, limit});
    b_.add(ir::EmitInt{v.scalar, static_cast<std::uint8_t>(e.type.bits / 8), limit});
}

// A length of 0 would mean the whole file, so a computed one of 0 prefetches nothing.
void ProgramLowering::prefetch(const checked::Stmt& s) {
    ir::Prefetch p{s.prefetch_kind, s.index, {}, Operand::imm(0), Operand::imm(0), {}};
    if (p.kind == ir::PrefetchKind::sibling) p.name = m_.literal(s.bytes);
    if (p.kind == ir::PrefetchKind::path) p.name = bytes(*s.value3);
    if (ir::is_mark(p.kind)) p.offset = Operand::imm(CIO_MARK_FILE);
    if (s.value) p.offset = scalar(*s.value);
    if (!s.value2) return b_.add(std::move(p));
    p.length = scalar(*s.value2);
    if (p.kind == ir::PrefetchKind::mark) return mark(s, std::move(p));
    if (p.length.is_imm && p.length.value != 0) return b_.add(std::move(p));
    if_(p.length, [&] { b_.add(p); });
}

void ProgramLowering::prefetch_via(const checked::Stmt& s) {
    const bool marks = s.prefetch_kind == ir::PrefetchKind::mark_via;
    ir::Prefetch p{
        marks ? s.prefetch_kind : ir::PrefetchKind::chain, s.index, {}, Operand::imm(0), Operand::imm(0), {}};
    for (const checked::ExprPtr& value : s.values) {
        if (!value || value->kind == checked::ExprKind::file_ref) continue;
        p.args.push_back(scalar(*value));
    }
    if (marks) p.offset = Operand::imm(CIO_MARK_FILE);
    if (s.value) p.offset = scalar(*s.value);
    if (marks) return mark(s, std::move(p));
    b_.add(std::move(p));
}

// A computed place that is the number for the whole file lies in no file, as `x - 1` may of an x of 0: nothing is
// marked.
void ProgramLowering::mark(const checked::Stmt& s, ir::Prefetch p) {
    const bool computed = s.value != nullptr;
    if (!computed || (p.offset.is_imm && p.offset.value != CIO_MARK_FILE)) return b_.add(std::move(p));
    if (p.offset.is_imm) return;
    if_(b_.binary(ir::BinOp::ne, p.offset, Operand::imm(CIO_MARK_FILE)), [&] { b_.add(p); });
}

// Digits are those of an unsigned integer: those of a negative one stand behind a `-`.
void ProgramLowering::signed_digits(Operand value, std::vector<ir::ReplyPart>& parts) {
    const Operand negative = b_.binary(ir::BinOp::slt, value, Operand::imm(0));
    ir::Slice sign = m_.literal("-");
    sign.length = negative;
    b_.check_range(sign.space, sign.offset, sign.length, CIO_MALFORMED);
    parts.push_back({ir::Format::bytes, {}, sign});
    parts.push_back({ir::Format::dec, b_.select(negative, b_.unary(ir::UnOp::neg, value), value), {}});
}

void ProgramLowering::reply(const checked::Stmt& s) {
    std::vector<ir::ReplyPart> parts;
    for (const checked::ReplyPart& part : s.parts) {
        Value v = eval(*part.value);
        if (v.kind == Value::Kind::bytes) {
            parts.push_back({part.format, {}, v.bytes});
        } else if (part.format == ir::Format::dec && part.value->type.is_signed) {
            signed_digits(v.scalar, parts);
        } else {
            parts.push_back({part.format, v.scalar, {}});
        }
    }
    // Signs may make them more than one reply holds.
    for (std::span<const ir::ReplyPart> rest = parts; !rest.empty();) {
        const auto now = rest.first(std::min<std::size_t>(rest.size(), ir::kMaxReplyParts));
        b_.add(ir::Reply{{now.begin(), now.end()}});
        rest = rest.subspan(now.size());
    }
}

Value ProgramLowering::call_chain(const checked::Expr& e) {
    const checked::Chain& target = m_.checked.chains[e.index];
    ir::CallChain call{b_.new_reg(), b_.new_reg(), static_cast<std::uint16_t>(e.index), results_++, {}, {},
                       {},           e.closes};
    for (const checked::ExprPtr& kid : e.kids) {
        if (kid->kind == checked::ExprKind::file_ref) {
            ir::Slice name = kid->kids.empty() || !kid->kids[0] ? m_.literal("") : bytes(*kid->kids[0]);
            call.files.push_back({static_cast<std::uint16_t>(kid->index), name});
            continue;
        }
        Value v = eval(*kid);
        if (v.kind == Value::Kind::bytes) {
            call.bytes_args.push_back(v.bytes);
        } else {
            call.args.push_back(v.scalar);
        }
    }
    Operand ok = Operand::reg(call.ok), result = Operand::reg(call.scalar);
    std::uint64_t number = call.result;
    b_.add(std::move(call));
    Value v = target.returns.kind == checked::TypeKind::bytes
                  ? Value::of(ir::Slice{ir::Space::result, Operand::imm(number << 32), result}, target.returns.max)
                  : Value::of(result);
    v.present = ok;
    return v;
}

}  // namespace chainio::passes
