// Arrays, sequences of records, pipelines, searches and aggregates.
#include <algorithm>
#include <bit>
#include <cassert>

#include "bpf-templates/chainio_step.h"
#include "compiler/passes/lower_program.h"

namespace chainio::passes {

using checked::ExprKind;
using ir::BinOp;

namespace {

bool is_filtered(const checked::Expr& source) {
    if (source.kind == ExprKind::let_in) return is_filtered(*source.kids.back());
    return source.kind == ExprKind::pipeline && (!source.filters.empty() || is_filtered(*source.kids[0]));
}

}  // namespace

Operand ProgramLowering::length_of(const Value& array) {
    if (array.kind == Value::Kind::repeat) return array.repeat->count;
    if (array.kind == Value::Kind::bytes) return array.bytes.length;
    return array.array->count;
}

Value ProgramLowering::element(const Value& array, Operand index, bool check) {
    if (check) {
        Operand count = length_of(array);
        if (!(index.is_imm && count.is_imm && index.value < count.value))
            b_.check(b_.binary(BinOp::ult, index, count), CIO_MALFORMED);
    }
    if (array.kind == Value::Kind::repeat) return repeat_element(*array.repeat, index);
    const ArrayData& a = *array.array;
    Operand at = b_.binary(BinOp::add, a.offset, b_.binary(BinOp::mul, index, Operand::imm(a.stride)));
    const checked::Type* type = a.field->type.element.get();
    if (type != nullptr && type->kind == checked::TypeKind::view)
        return make_view(m_.checked.records[type->record], at, true);
    demand(ir::Space::block, at, Operand::imm(a.stride), CIO_MALFORMED);
    return Value::of(b_.load(ir::Space::block, at, a.field->width, a.field->big_endian, a.field->is_signed));
}

Value ProgramLowering::array_slice(const Value& array, Operand low, Operand high) {
    demand_le(high, length_of(array), CIO_MALFORMED);
    demand_le(low, high, CIO_MALFORMED);
    Value v;
    v.kind = Value::Kind::array;
    v.array = std::make_shared<ArrayData>(*array.array);
    v.array->offset =
        b_.binary(BinOp::add, array.array->offset, b_.binary(BinOp::mul, low, Operand::imm(array.array->stride)));
    v.array->count = b_.binary(BinOp::sub, high, low);
    return v;
}

// Binary search: an index below `low` has an element before the key, one at or above `high` does not. Each round halves
// what is between them, so bit_width(max) rounds are always enough.
Value ProgramLowering::search(const checked::Expr& e) {
    auto kind = static_cast<checked::Search>(e.index);
    Value array = eval(*e.kids[0]), key = eval(*e.kids[1]);
    std::uint32_t max = array.array->max;
    ir::Reg low = b_.variable(Operand::imm(0), "low"), high = b_.variable(length_of(array), "high");
    ir::Reg found = kind == checked::Search::find ? b_.variable(Operand::imm(0), "found") : low;
    auto rounds = static_cast<std::uint32_t>(std::bit_width(max));
    loop(Operand::imm(rounds), rounds, [&](Operand) {
        b_.if_(b_.binary(BinOp::ule, Operand::reg(high), Operand::reg(low)), [&] { b_.add(ir::Break{}); });
        Operand middle =
            b_.binary(BinOp::lshr, b_.binary(BinOp::add, Operand::reg(low), Operand::reg(high)), Operand::imm(1));
        Value at = element(array, middle, false);
        if (e.body) {
            (*env_)[e.body->local] = at;
            at = eval(*e.body->body);
        }
        bool is_bytes = at.kind == Value::Kind::bytes;
        bool is_signed = !is_bytes && e.kids[1]->type.kind == checked::TypeKind::integer && e.kids[1]->type.is_signed;
        Operand order = is_bytes ? compare(at, key) : Operand::imm(0);
        auto test = [&](checked::Binary op) {
            return is_bytes ? compare_test(op, order) : arithmetic(op, is_signed, at.scalar, key.scalar);
        };
        Operand before = test(kind == checked::Search::upper_bound ? checked::Binary::le : checked::Binary::lt);
        if_(
            before, [&] { b_.assign(low, b_.binary(BinOp::add, middle, Operand::imm(1))); },
            [&] {
                b_.assign(high, middle);
                if (kind == checked::Search::find) b_.assign(found, test(checked::Binary::eq));
            });
    });
    Value result = Value::of(fixed(Operand::reg(low)));
    if (kind == checked::Search::find) result.present = fixed(Operand::reg(found));
    return result;
}

Operand ProgramLowering::select_best(const checked::Expr& e, Operand v, Operand best) {
    bool is_signed = e.type.is_signed;
    bool is_min = static_cast<checked::Aggregate>(e.index) == checked::Aggregate::min;
    Operand better = is_min ? b_.binary(is_signed ? BinOp::slt : BinOp::ult, v, best)
                            : b_.binary(is_signed ? BinOp::slt : BinOp::ult, best, v);
    return b_.select(better, v, best);
}

Value ProgramLowering::aggregate(const checked::Expr& e) {
    auto kind = static_cast<checked::Aggregate>(e.index);
    ir::Reg result = b_.variable(Operand::imm(0));
    bool is_best = kind == checked::Aggregate::min || kind == checked::Aggregate::max;
    ir::Reg present = is_best ? b_.variable(Operand::imm(0)) : result;
    iterate(*e.kids[0], 0, [&](const Value& each) {
        Operand v = Operand::imm(1);
        if (kind != checked::Aggregate::count) {
            if (e.body) {
                (*env_)[e.body->local] = each;
                v = scalar(*e.body->body);
            } else {
                v = each.scalar;
            }
        }
        if (!is_best) {
            b_.assign(result, b_.binary(BinOp::add, Operand::reg(result), v));
            return;
        }
        Operand better = select_best(e, v, Operand::reg(result));
        b_.assign(result, b_.select(Operand::reg(present), better, v));
        b_.assign(present, Operand::imm(1));
    });
    Value out = Value::of(fixed(Operand::reg(result)));
    if (is_best) out.present = fixed(Operand::reg(present));
    return out;
}

void ProgramLowering::iterate(const checked::Expr& source, std::uint32_t max, const std::function<void(Value)>& each) {
    if (max == 0 || max >= source.type.max || !is_filtered(source)) return walk(source, {max, {}}, each);
    const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(source.type.max, CIO_MAX_BLOCK));
    const ir::Reg left = b_.variable(Operand::imm(max), "left");
    walk(source, {most, left}, [&](Value v) {
        b_.assign(left, b_.binary(BinOp::sub, Operand::reg(left), Operand::imm(1)));
        each(std::move(v));
    });
}

// The number is looked at before the next element is, so that one that is too many need not be well formed.
void ProgramLowering::rounds(Operand count, std::uint32_t max, const Cut& cut,
                             const std::function<void(Operand)>& inside) {
    loop(count, max, [&](Operand i) {
        if (cut.left) b_.if_(Operand::reg(*cut.left), {}, [&] { b_.add(ir::Break{}); });
        inside(i);
    });
}

void ProgramLowering::walk(const checked::Expr& source, const Cut& cut, const std::function<void(Value)>& each) {
    const checked::Expr* base = &source;
    std::vector<const checked::Expr*> pipelines;
    while (base->kind == ExprKind::pipeline) {
        pipelines.push_back(base);
        base = base->kids[0].get();
    }
    std::ranges::reverse(pipelines);
    auto filtered = [&](Value v) {
        for (const checked::Expr* pipeline : pipelines) {
            for (const checked::Lambda& filter : pipeline->filters) {
                (*env_)[filter.local] = v;
                Operand keep = scalar(*filter.body);
                b_.if_(keep, {}, [&] { b_.add(ir::Continue{}); });
            }
        }
        each(std::move(v));
    };
    if (base->kind == ExprKind::let_in) {
        bind_lets(*base);
        return walk(*base->kids.back(), cut, filtered);
    }
    Value v = eval(*base);
    switch (v.kind) {
        case Value::Kind::array: return iterate_array(v, cut, filtered);
        case Value::Kind::records: return iterate_records(*v.records, cut, filtered);
        case Value::Kind::pieces: return iterate_pieces(*v.pieces, cut, filtered);
        case Value::Kind::repeat: return iterate_repeat(*v.repeat, cut, filtered);
        default: assert(false);
    }
}

void ProgramLowering::iterate_array(const Value& array, const Cut& cut, const std::function<void(Value)>& each) {
    std::uint32_t bound = cut.max != 0 ? std::min(cut.max, array.array->max) : array.array->max;
    Operand count = length_of(array);
    if (count.is_imm) {
        count = Operand::imm(std::min<std::uint64_t>(count.value, bound));
    } else if (bound < array.array->max) {
        count = b_.binary(BinOp::umin, count, Operand::imm(bound));
    }
    rounds(count, bound, cut, [&](Operand i) { each(element(array, i, false)); });
}

// The piece behind the last separator may be empty, too; the position is one past the end once it was had.
void ProgramLowering::iterate_pieces(const PiecesData& pieces, const Cut& cut, const std::function<void(Value)>& each) {
    std::uint32_t bound = cut.max != 0 ? std::min(cut.max, pieces.max) : pieces.max;
    ir::Reg position = b_.variable(pieces.bytes.offset, "position");
    Operand end = b_.binary(BinOp::add, pieces.bytes.offset, pieces.bytes.length);
    rounds(Operand::imm(bound), bound, cut, [&](Operand) {
        Operand at = fixed(Operand::reg(position));
        b_.if_(b_.binary(BinOp::ult, end, at), [&] { b_.add(ir::Break{}); });
        // One byte more than the longest piece is looked at: the separator may stand there.
        const std::uint32_t most = window_of(pieces.longest);
        Operand window = b_.binary(BinOp::umin, b_.binary(BinOp::sub, end, at), Operand::imm(most));
        demand(ir::Space::block, at, window, CIO_MALFORMED);
        Operand length = b_.find_byte({ir::Space::block, at, window}, Operand::imm(pieces.separator), most);
        demand_le(length, Operand::imm(pieces.longest), CIO_MALFORMED);
        b_.assign(position, b_.binary(BinOp::add, b_.binary(BinOp::add, at, length), Operand::imm(1)));
        demand(ir::Space::block, at, length, CIO_MALFORMED);
        each(Value::of(ir::Slice{ir::Space::block, at, length}, pieces.longest));
    });
}

// The next record's place is known before the body runs, so that `continue` in the body goes on with it.
void ProgramLowering::iterate_records(const RecordsData& records, const Cut& cut,
                                      const std::function<void(Value)>& each) {
    std::uint32_t bound =
        cut.max != 0 && records.max != 0 ? std::min(cut.max, records.max) : std::max(cut.max, records.max);
    ir::Reg position = b_.variable(records.offset, "position");
    rounds(Operand::imm(bound), bound, cut, [&](Operand) {
        Operand at = fixed(Operand::reg(position));
        b_.if_(b_.binary(BinOp::ule, records.end, at), [&] { b_.add(ir::Break{}); });
        Value view = make_view(*records.record, at, true);
        Operand end = view_end(view.view);
        demand_le(end, records.end, CIO_MALFORMED);
        b_.check(b_.binary(BinOp::ult, at, end), CIO_MALFORMED);
        b_.assign(position, end);
        each(view);
    });
}

}  // namespace chainio::passes
