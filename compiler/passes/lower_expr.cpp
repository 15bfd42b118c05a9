// Integers, booleans, and the choice between values.
#include <algorithm>
#include <cassert>

#include "bpf-templates/chainio_step.h"
#include "compiler/passes/lower_program.h"

namespace chainio::passes {

using checked::ExprKind;
using ir::BinOp;
using ir::UnOp;

namespace {

bool is_logical(checked::Binary op) { return op == checked::Binary::logical_and || op == checked::Binary::logical_or; }

}  // namespace

Operand ProgramLowering::scalar(const checked::Expr& e) {
    Value v = eval(e);
    assert(v.kind == Value::Kind::scalar);
    return v.scalar;
}

// Something of the type, in a program that is only good for being refused by its size: sides of `? :` that are lowered
// anew in each other could otherwise take hours and all memory to say so. Nothing chooses between arrays or texts.
std::optional<Value> ProgramLowering::stand_in(const checked::Type& type) {
    Value v;
    switch (type.kind) {
        case checked::TypeKind::integer:
        case checked::TypeKind::boolean: v = Value::of(Operand::imm(0)); break;
        case checked::TypeKind::bytes:
            v = Value::of(ir::Slice{ir::Space::block, Operand::imm(0), Operand::imm(0)}, std::max(type.max, 1u));
            break;
        case checked::TypeKind::view: v = make_view(m_.checked.records[type.record], Operand::imm(0), false); break;
        default: return std::nullopt;
    }
    if (type.optional) v.present = Operand::imm(0);
    return v;
}

Value ProgramLowering::eval(const checked::Expr& e) {
    if (b_.full())
        if (auto v = stand_in(e.type)) return *v;
    switch (e.kind) {
        case ExprKind::int_const:
        case ExprKind::bool_const: return Value::of(Operand::imm(e.value));
        case ExprKind::local: return local(e);
        case ExprKind::param: return param(e.index);
        case ExprKind::header_field: return Value::of(header_field(e.index, e.index2));
        case ExprKind::state: return state(e.index);
        case ExprKind::block_offset: return Value::of(b_.input(ir::Input::block_offset));
        case ExprKind::block_length: return Value::of(b_.input(ir::Input::block_length));
        case ExprKind::block_tag: return Value::of(b_.input(ir::Input::block_tag));
        case ExprKind::view: return make_view(m_.checked.records[e.type.record], fixed(scalar(*e.kids[0])), true);
        case ExprKind::field: return field(eval(*e.kids[0]).view, e.index);
        case ExprKind::bit_field: {
            Operand shifted = b_.binary(BinOp::lshr, scalar(*e.kids[0]), Operand::imm(e.index));
            std::uint64_t mask = e.index2 >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << e.index2) - 1;
            return Value::of(b_.binary(BinOp::bit_and, shifted, Operand::imm(mask)));
        }
        case ExprKind::view_offset: return Value::of(eval(*e.kids[0]).view->offset);
        case ExprKind::view_end: return Value::of(view_end(eval(*e.kids[0]).view));
        case ExprKind::element: {
            Value array = eval(*e.kids[0]);
            return element(array, fixed(scalar(*e.kids[1])), true);
        }
        case ExprKind::array_slice: {
            Value array = eval(*e.kids[0]);
            Operand low = e.kids[1] ? scalar(*e.kids[1]) : Operand::imm(0);
            Operand high = e.kids.size() > 2 && e.kids[2] ? scalar(*e.kids[2]) : length_of(array);
            return array_slice(array, fixed(low), fixed(high));
        }
        case ExprKind::array_length: return Value::of(length_of(eval(*e.kids[0])));
        case ExprKind::search: return search(e);
        case ExprKind::aggregate: return aggregate(e);
        case ExprKind::unary: return Value::of(unary(e));
        case ExprKind::binary: return binary(e);
        case ExprKind::cond: return cond(e);
        case ExprKind::cast: return Value::of(cast(e));
        case ExprKind::let_in: bind_lets(e); return eval(*e.kids.back());
        case ExprKind::text_match: return text_match(m_.checked.texts[e.type.record], bytes_value(*e.kids[0]));
        case ExprKind::capture: return eval(*e.kids[0]).text->captures[e.index];
        case ExprKind::call_chain: return call_chain(e);
        case ExprKind::bytes_length: return Value::of(bytes(*e.kids[0]).length);
        case ExprKind::bytes_offset: return Value::of(bytes(*e.kids[0]).offset);
        case ExprKind::byte_at: return Value::of(byte_at(e));
        case ExprKind::int_of_bytes: return Value::of(int_of_bytes(e));
        case ExprKind::decimal_of_bytes: return Value::of(decimal_of_bytes(e));
        case ExprKind::bytes_find: return byte_found(e);
        case ExprKind::hash: return Value::of(hash(e));
        case ExprKind::bytes_const:
        case ExprKind::block_bytes:
        case ExprKind::number_bytes:
        case ExprKind::bytes_slice: return bytes_value(e);
        case ExprKind::bytes_records: {
            ir::Slice slice = bytes(*e.kids[0]);
            Value v;
            v.kind = Value::Kind::records;
            const checked::Record& record = m_.checked.records[e.type.element->record];
            v.records = std::make_shared<RecordsData>(
                RecordsData{&record, slice.offset, b_.binary(BinOp::add, slice.offset, slice.length), e.type.max});
            return v;
        }
        case ExprKind::bytes_split: {
            Value v;
            v.kind = Value::Kind::pieces;
            v.pieces =
                std::make_shared<PiecesData>(PiecesData{bytes(*e.kids[0]), e.index, e.type.element->max, e.type.max});
            return v;
        }
        case ExprKind::pipeline:
        case ExprKind::file_ref: break;  // read where they may stand: iterate() and call_chain()
    }
    assert(false);
    return {};
}

Operand ProgramLowering::fixed(Operand op) {
    if (op.is_imm) return op;
    ir::Reg r = b_.new_reg();
    b_.assign(r, op);
    return Operand::reg(r);
}

// A mutable local is copied, so that the value stays what it was when the variable changes.
Value ProgramLowering::local(const checked::Expr& e) {
    const Value& v = (*env_)[e.index];
    return v.variable ? Value::of(fixed(Operand::reg(*v.variable))) : v;
}

Value ProgramLowering::param(std::uint32_t index) {
    const ir::Param& p = chain_->out.params[index];
    Operand first = b_.arg(p.slot);
    if (p.kind == ir::Param::Kind::scalar) return Value::of(first);
    Operand length = b_.arg(static_cast<std::uint16_t>(p.slot + 1));
    demand_le(length, Operand::imm(p.max), CIO_BAD_ARGUMENT);
    demand(ir::Space::args, first, length, CIO_BAD_ARGUMENT);
    return Value::of(ir::Slice{ir::Space::args, first, length}, p.max);
}

Operand ProgramLowering::header_field(std::uint32_t param, std::uint32_t field) {
    return b_.arg(chain_->header_slot(file_slot(param), field));
}

Operand ProgramLowering::unary(const checked::Expr& e) {
    Operand a = scalar(*e.kids[0]);
    switch (static_cast<checked::Unary>(e.index)) {
        case checked::Unary::negate: return b_.unary(UnOp::neg, a);
        case checked::Unary::logical_not: return b_.unary(UnOp::logical_not, a);
        case checked::Unary::bit_not: return b_.unary(UnOp::bit_not, a);
    }
    return a;
}

Value ProgramLowering::binary(const checked::Expr& e) {
    auto op = static_cast<checked::Binary>(e.index);
    if (is_logical(op)) return Value::of(logical(e));
    const checked::Type& type = e.kids[0]->type;
    Value a = eval(*e.kids[0]), b = eval(*e.kids[1]);
    if (a.kind == Value::Kind::bytes) return Value::of(compare_test(op, compare(a, b)));
    bool is_signed = type.kind == checked::TypeKind::integer && type.is_signed;
    return Value::of(arithmetic(op, is_signed, a.scalar, b.scalar));
}

Operand ProgramLowering::arithmetic(checked::Binary op, bool is_signed, Operand a, Operand b) {
    BinOp less = is_signed ? BinOp::slt : BinOp::ult, less_equal = is_signed ? BinOp::sle : BinOp::ule;
    auto divide = [&](BinOp which) {
        if (!b.is_imm) b_.check(b, CIO_MALFORMED);
        if (b.is_imm && b.value == 0) b_.add(ir::Fail{CIO_MALFORMED});
        return b_.binary(which, a, b);
    };
    switch (op) {
        case checked::Binary::mul: return b_.binary(BinOp::mul, a, b);
        case checked::Binary::div: return divide(BinOp::udiv);
        case checked::Binary::mod: return divide(BinOp::umod);
        case checked::Binary::add: return b_.binary(BinOp::add, a, b);
        case checked::Binary::sub: return b_.binary(BinOp::sub, a, b);
        case checked::Binary::shl: return b_.binary(BinOp::shl, a, b);
        case checked::Binary::shr: return b_.binary(is_signed ? BinOp::ashr : BinOp::lshr, a, b);
        case checked::Binary::bit_and: return b_.binary(BinOp::bit_and, a, b);
        case checked::Binary::bit_xor: return b_.binary(BinOp::bit_xor, a, b);
        case checked::Binary::bit_or: return b_.binary(BinOp::bit_or, a, b);
        case checked::Binary::lt: return b_.binary(less, a, b);
        case checked::Binary::le: return b_.binary(less_equal, a, b);
        case checked::Binary::gt: return b_.binary(less, b, a);
        case checked::Binary::ge: return b_.binary(less_equal, b, a);
        case checked::Binary::eq: return b_.binary(BinOp::eq, a, b);
        case checked::Binary::ne: return b_.binary(BinOp::ne, a, b);
        case checked::Binary::logical_and:
        case checked::Binary::logical_or: break;
    }
    return a;
}

Operand ProgramLowering::logical(const checked::Expr& e) {
    bool is_and = static_cast<checked::Binary>(e.index) == checked::Binary::logical_and;
    auto known = [&] { return Operand::imm(is_and ? 0 : 1); };
    Operand left = scalar(*e.kids[0]);
    for (std::size_t i = 1; i < e.kids.size(); i++) {
        auto right = [&] { return scalar(*e.kids[i]); };
        left = is_and ? choose(left, right, known) : choose(left, known, right);
    }
    return left;
}

namespace {

// Whether running the statements where they are not asked for changes nothing but time, and little of that.
bool is_cheap(const ir::Body& body) {
    if (body.size() > 4) return false;
    return std::ranges::all_of(body, [](const ir::Stmt& stmt) {
        if (auto* load = std::get_if<ir::Load>(&stmt.node))
            return load->space == ir::Space::state && load->offset.is_imm;
        return std::holds_alternative<ir::Move>(stmt.node) || std::holds_alternative<ir::Unary>(stmt.node) ||
               std::holds_alternative<ir::Binary>(stmt.node) || std::holds_alternative<ir::Select>(stmt.node) ||
               std::holds_alternative<ir::GetInput>(stmt.node) || std::holds_alternative<ir::GetArg>(stmt.node);
    });
}

}  // namespace

// Only the taken side runs, unless both are so cheap that running both beats a branch and a variable.
Operand ProgramLowering::choose(Operand cond, const std::function<Operand()>& yes, const std::function<Operand()>& no) {
    if (cond.is_imm) return cond.value != 0 ? yes() : no();
    Operand a, b;
    auto [yes_body, yes_ends] = b_.capture([&] { scoped([&] { a = yes(); }); });
    auto [no_body, no_ends] = b_.capture([&] { scoped([&] { b = no(); }); });
    if (is_cheap(yes_body) && is_cheap(no_body)) {
        b_.splice(std::move(yes_body));
        b_.splice(std::move(no_body));
        if (a.is_imm && b.is_imm && a.value == 1 && b.value == 0) return b_.binary(BinOp::ne, cond, Operand::imm(0));
        return b_.select(cond, a, b);
    }
    ir::Reg result = b_.new_reg();
    b_.if_(
        cond,
        [&] {
            b_.splice(std::move(yes_body));
            b_.assign(result, a);
        },
        [&] {
            b_.splice(std::move(no_body));
            b_.assign(result, b);
        });
    return Operand::reg(result);
}

namespace {

// The fields of a record that one of its own expressions reads in any case.
void add_always_read(const checked::Expr& e, std::vector<std::uint32_t>& fields) {
    if (e.kind == ExprKind::field && e.kids[0]->kind == ExprKind::local && e.kids[0]->index == 0)
        fields.push_back(e.index);
    const bool only_first =
        e.kind == ExprKind::cond || (e.kind == ExprKind::binary && is_logical(static_cast<checked::Binary>(e.index)));
    for (const checked::ExprPtr& kid : e.kids) {
        if (kid) add_always_read(*kid, fields);
        if (only_first) return;
    }
}

}  // namespace

// What a side has computed is forgotten at its end. Derived fields that both sides need are therefore computed before
// the sides part: of fields that build on one another by `? :`, each would otherwise double the size of the program.
// Where bytes may still come, which of two fields is missed first makes a difference.
void ProgramLowering::read_shared(const checked::Expr& yes, const checked::Expr& no) {
    const bool of_a_record = env_ != &locals_;
    if (!of_a_record || arriving_) return;
    std::vector<std::uint32_t> in_yes, in_no;
    add_always_read(yes, in_yes);
    add_always_read(no, in_no);
    const std::shared_ptr<ViewData> view = (*env_)[0].view;
    for (std::uint32_t index : in_yes) {
        const bool derived = view->record->fields[index].kind == checked::Field::Kind::derived;
        if (derived && std::ranges::find(in_no, index) != in_no.end()) field(view, index);
    }
}

Value ProgramLowering::cond(const checked::Expr& e) {
    Operand condition = scalar(*e.kids[0]);
    if (!condition.is_imm) read_shared(*e.kids[1], *e.kids[2]);
    if (e.type.kind == checked::TypeKind::integer || e.type.kind == checked::TypeKind::boolean) {
        return Value::of(choose(condition, [&] { return scalar(*e.kids[1]); }, [&] { return scalar(*e.kids[2]); }));
    }
    return merge(condition, *e.kids[1], *e.kids[2]);
}

// Bytes, views and arrays: both sides locate their value in the same registers. The checker has seen to it that bytes
// of both sides are in one space.
Value ProgramLowering::merge(Operand condition, const checked::Expr& yes, const checked::Expr& no) {
    if (condition.is_imm) return eval(condition.value != 0 ? yes : no);
    Value a, b;
    auto [yes_body, yes_ends] = b_.capture([&] { scoped([&] { a = eval(yes); }); });
    auto [no_body, no_ends] = b_.capture([&] { scoped([&] { b = eval(no); }); });
    Value result = a;
    if (a.kind == Value::Kind::bytes) {
        result.max = std::max(a.max, b.max);
        result.bytes.offset = Operand::reg(b_.new_reg());
        result.bytes.length = Operand::reg(b_.new_reg());
    } else if (a.kind == Value::Kind::view) {
        result.view = std::make_shared<ViewData>(ViewData{a.view->record, Operand::reg(b_.new_reg()), {}});
        result.view->fields.resize(a.view->record->fields.size());
        result.view->begins_near = checked::fixed_prefix(*a.view->record) > 0;
    } else {
        assert(a.kind == Value::Kind::array && a.array->stride == b.array->stride);
        result.array = std::make_shared<ArrayData>(*a.array);
        result.array->max = std::max(a.array->max, b.array->max);
        result.array->offset = Operand::reg(b_.new_reg());
        result.array->count = Operand::reg(b_.new_reg());
    }
    auto side = [&](ir::Body& body, const Value& v) {
        b_.splice(std::move(body));
        assign_value(result, v);
    };
    b_.if_(condition, [&] { side(yes_body, a); }, [&] { side(no_body, b); });
    if (result.kind == Value::Kind::bytes)
        demand(result.bytes.space, result.bytes.offset, result.bytes.length, CIO_MALFORMED);
    return result;
}

void ProgramLowering::assign_value(const Value& target, const Value& v) {
    auto set = [&](Operand to, Operand from) { b_.assign(static_cast<ir::Reg>(to.value), from); };
    switch (target.kind) {
        case Value::Kind::bytes:
            set(target.bytes.offset, v.bytes.offset);
            set(target.bytes.length, v.bytes.length);
            break;
        case Value::Kind::view: set(target.view->offset, v.view->offset); break;
        case Value::Kind::array:
            set(target.array->offset, v.array->offset);
            set(target.array->count, v.array->count);
            break;
        default: assert(false);
    }
}

Operand ProgramLowering::cast(const checked::Expr& e) {
    Operand v = scalar(*e.kids[0]);
    const checked::Type& from = e.kids[0]->type;
    if (e.type.kind == checked::TypeKind::boolean) return b_.binary(BinOp::ne, v, Operand::imm(0));
    if (from.kind == checked::TypeKind::boolean) return v;
    bool fits =
        from.is_signed == e.type.is_signed ? from.bits <= e.type.bits : !from.is_signed && from.bits < e.type.bits;
    return fits ? v : to_width(v, e.type.bits, e.type.is_signed);
}

Operand ProgramLowering::to_width(Operand v, std::uint32_t bits, bool is_signed) {
    if (bits >= 64) return v;
    switch (bits) {
        case 8: return b_.unary(is_signed ? UnOp::sext8 : UnOp::zext8, v);
        case 16: return b_.unary(is_signed ? UnOp::sext16 : UnOp::zext16, v);
        case 32: return b_.unary(is_signed ? UnOp::sext32 : UnOp::zext32, v);
        default: break;
    }
    Operand shift = Operand::imm(64 - bits);
    return b_.binary(is_signed ? BinOp::ashr : BinOp::lshr, b_.binary(BinOp::shl, v, shift), shift);
}

void ProgramLowering::bind_lets(const checked::Expr& e) {
    for (std::size_t i = 0; i < e.locals.size(); i++) {
        Value v = eval(*e.kids[i]);
        if (v.kind == Value::Kind::scalar && !v.present) v.scalar = fixed(v.scalar);
        if (e.locals[i] >= env_->size()) env_->resize(e.locals[i] + 1);
        (*env_)[e.locals[i]] = std::move(v);
    }
}

}  // namespace chainio::passes
