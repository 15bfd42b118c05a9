// Views of records: where each field is, whether it is there, what it says. Offsets are constants as long as they can
// be; the others are computed once and remembered while that computation dominates.
#include <algorithm>
#include <cassert>

#include "bpf-templates/chainio_step.h"
#include "compiler/passes/lower_program.h"

namespace chainio::passes {

using checked::Field;
using ir::BinOp;
using View = std::shared_ptr<ViewData>;

namespace {

// Where nothing is: behind all blocks, and so far from the end of the numbers that what a record adds to it, with the
// records in it, does not come around to their beginning.
constexpr std::uint64_t kFar = std::uint64_t{1} << 55;

bool is_computed_place(const Field& f) { return f.at && f.at->kind != checked::ExprKind::int_const; }

// Whether the field is always there, and its end in the block wherever that has been computed.
bool ends_in_block(const Field& f) {
    return !f.when && !is_gap(f) && f.fixed_size < 0 && f.kind != Field::Kind::derived && f.kind != Field::Kind::record;
}

bool begins_block(const View& view) { return view->offset.is_imm && view->offset.value == 0; }

Operand plus(ir::Builder& b, Operand base, std::uint64_t more) {
    if (more == 0) return base;
    if (base.is_imm) return Operand::imm(base.value + more);
    return b.binary(BinOp::add, base, Operand::imm(more));
}

}  // namespace

Operand ProgramLowering::remember(const View& view, std::optional<Operand>& slot, Operand op) {
    slot = op;
    undo_.emplace_back([view, &slot] { slot.reset(); });
    return op;
}

const Value& ProgramLowering::remember(const View& view, std::uint32_t index, Value v) {
    auto kept = std::make_shared<const Value>(std::move(v));
    view->fields[index].value = kept;
    undo_.emplace_back([view, index] { view->fields[index].value.reset(); });
    return *kept;
}

Value ProgramLowering::make_view(const checked::Record& record, Operand offset, bool check) {
    Value v;
    v.kind = Value::Kind::view;
    v.view = std::make_shared<ViewData>(ViewData{&record, offset, {}});
    v.view->fields.resize(record.fields.size());
    v.view->begins_near = fixed_prefix(record) > 0 || (offset.is_imm && offset.value <= kFar);
    if (check) check_view(v.view);
    return v;
}

void ProgramLowering::check_view(const View& view) {
    std::uint64_t prefix = fixed_prefix(*view->record);
    if (prefix > 0) demand(ir::Space::block, view->offset, Operand::imm(prefix), absent());
    for (std::uint32_t i = 0; i < view->record->fields.size(); i++) {
        const Field& f = view->record->fields[i];
        if (!f.equals && f.choices.empty()) continue;
        if (f.when) {
            if_(exists(view, i), [&] { check_expectation(view, i); });
        } else {
            check_expectation(view, i);
        }
    }
    check_gaps(view);
}

// `_: at N` behind what may reach further: the fields behind it are found without those before it, so nothing else
// would compare them. Of a request that is still to come, what there is decides.
void ProgramLowering::check_gaps(const View& view) {
    if (arriving_) return;
    const std::vector<Field>& fields = view->record->fields;
    for (std::uint32_t i = 1; i < fields.size(); i++) {
        if (!fields[i].compared) continue;
        begins_near(view);
        ends_before(view, i - 1);
        demand_le(field_end(view, i - 1), plus(b_, view->offset, fields[i].at->value), CIO_MALFORMED);
    }
}

void ProgramLowering::check_expectation(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    Value v = field(view, index);
    if (f.equals) {
        Value expected = value_in_record(view, *f.equals);
        Operand same = v.kind == Value::Kind::bytes ? b_.binary(BinOp::eq, compare(v, expected), Operand::imm(0))
                                                    : b_.binary(BinOp::eq, v.scalar, expected.scalar);
        b_.check(same, CIO_MALFORMED);
    }
    if (f.choices.empty()) return;
    Operand any = Operand::imm(0);
    for (std::uint64_t choice : f.choices) {
        Operand same = b_.binary(BinOp::eq, v.scalar, Operand::imm(choice));
        any = any.is_imm ? same : b_.binary(BinOp::bit_or, any, same);
    }
    b_.check(any, CIO_MALFORMED);
}

Value ProgramLowering::value_in_record(const View& view, const checked::Expr& e) {
    Env env(std::max<std::size_t>(view->record->locals.size(), 1));
    env[0].kind = Value::Kind::view;
    env[0].view = view;
    EnvScope scope(*this, env);
    return eval(e);
}

Operand ProgramLowering::in_record(const View& view, const checked::Expr& e) {
    Value v = value_in_record(view, e);
    assert(v.kind == Value::Kind::scalar);
    return v.scalar;
}

Value ProgramLowering::field(const View& view, std::uint32_t index) {
    FieldMemo& memo = view->fields[index];
    if (memo.value) return *memo.value;
    const Field& f = view->record->fields[index];
    if (f.when) b_.check(exists(view, index), CIO_MALFORMED);
    return remember(view, index, read_field(view, index));
}

Value ProgramLowering::read_field(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    switch (f.kind) {
        case Field::Kind::integer: {
            Operand at = field_offset(view, index);
            demand(ir::Space::block, at, Operand::imm(f.width), absent());
            return Value::of(b_.load(ir::Space::block, at, f.width, f.big_endian, f.is_signed));
        }
        case Field::Kind::varint: return varint_field(view, index);
        case Field::Kind::padding:
        case Field::Kind::bytes: {
            Operand at = field_offset(view, index);
            Operand length = f.length ? in_record(view, *f.length) : Operand::imm(0);
            demand(ir::Space::block, at, length, absent());
            return Value::of(ir::Slice{ir::Space::block, at, length}, f.max != 0 ? f.max : CIO_MAX_BLOCK);
        }
        case Field::Kind::cstr: return cstr_field(view, index);
        case Field::Kind::record: return make_view(m_.checked.records[f.record], field_offset(view, index), true);
        case Field::Kind::array: return array_field(view, index);
        case Field::Kind::derived: return value_in_record(view, *f.value);
    }
    return {};
}

Value ProgramLowering::varint_field(const View& view, std::uint32_t index) {
    Operand at = field_offset(view, index);
    auto [v, length] = varint_at(view->record->fields[index].varint, at);
    if (!view->record->fields[index].when) remember(view, view->fields[index].end, b_.binary(BinOp::add, at, length));
    return Value::of(v);
}

std::pair<Operand, Operand> ProgramLowering::varint_at(ir::VarintKind kind, Operand at) {
    const auto read = [&](std::uint32_t outcome) {
        return b_.varint(kind, ir::Space::block, at, Operand::imm(CIO_MAX_BLOCK), outcome);
    };
    if (!arriving_) return read(CIO_MALFORMED);
    // One that has no end in as many bytes as the longest has is of bad form, whatever comes behind it.
    constexpr std::uint64_t kLongest = 10;
    const ir::Reg value = b_.variable(Operand::imm(0)), length = b_.variable(Operand::imm(0));
    const auto take = [&](std::uint32_t outcome) {
        const auto [v, n] = read(outcome);
        b_.assign(value, v);
        b_.assign(length, n);
    };
    const Operand longest_end = b_.binary(BinOp::add, at, Operand::imm(kLongest));
    b_.if_(
        b_.binary(BinOp::ule, longest_end, b_.input(ir::Input::block_length)), [&] { take(CIO_MALFORMED); },
        [&] { take(CIO_SHORT_READ); });
    return {Operand::reg(value), Operand::reg(length)};
}

// The byte behind it must be in the block and within `max` + 1 bytes.
Value ProgramLowering::cstr_field(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    Operand at = field_offset(view, index);
    Operand size = b_.input(ir::Input::block_length);
    demand_le(at, size, absent());
    std::uint32_t longest = window_of(f.max);
    Operand window = b_.binary(BinOp::umin, b_.binary(BinOp::sub, size, at), Operand::imm(longest));
    demand(ir::Space::block, at, window, CIO_MALFORMED);
    Operand length = b_.find_byte({ir::Space::block, at, window}, Operand::imm(f.stop), longest);
    const Operand found = b_.binary(BinOp::ult, length, window);
    if (arriving_)
        b_.check(b_.binary(BinOp::bit_or, found, b_.binary(BinOp::eq, window, Operand::imm(longest))), CIO_SHORT_READ);
    b_.check(found, CIO_MALFORMED);
    demand(ir::Space::block, at, length, CIO_MALFORMED);
    if (!f.when) remember(view, view->fields[index].end, plus(b_, b_.binary(BinOp::add, at, length), 1));
    return Value::of(ir::Slice{ir::Space::block, at, length}, f.max);
}

std::uint32_t ProgramLowering::stride_of(const Field& f) const {
    const checked::Type* element = f.type.element.get();
    const bool is_record = element != nullptr && element->kind == checked::TypeKind::view;
    return is_record ? static_cast<std::uint32_t>(m_.checked.records[element->record].fixed_size) : f.width;
}

Operand ProgramLowering::array_count(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    Operand count = in_record(view, *f.count);
    demand_le(count, Operand::imm(f.max), CIO_MALFORMED);
    return count;
}

Value ProgramLowering::array_field(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    const std::uint32_t stride = stride_of(f);
    Operand count = array_count(view, index);
    Operand at = field_offset(view, index);
    Operand size =
        count.is_imm ? Operand::imm(count.value * stride) : b_.binary(BinOp::mul, count, Operand::imm(stride));
    demand(ir::Space::block, at, size, absent());
    Value v;
    v.kind = Value::Kind::array;
    v.array = std::make_shared<ArrayData>(ArrayData{&f, at, count, stride, f.max});
    return v;
}

Operand ProgramLowering::field_offset(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    if (f.fixed_offset > 0) begins_near(view);
    if (f.fixed_offset >= 0) return plus(b_, view->offset, static_cast<std::uint64_t>(f.fixed_offset));
    FieldMemo& memo = view->fields[index];
    if (memo.offset) return *memo.offset;
    if (f.at && !is_gap(f)) {
        const Place own = place(view, *f.at);
        memo.is_near = own.is_near;
        return remember(view, memo.offset, own.at);
    }
    if (index == 0) return view->offset;
    ends_before(view, index - 1);
    return remember(view, memo.offset, field_end(view, index - 1));
}

// A computed place says anything in a damaged file: what wraps around would be other bytes, perhaps those in front of
// the record. Of a request that is still to come, nothing is claimed to be that far.
void ProgramLowering::demand_near(Operand at) {
    if (!arriving_ && b_.bounds().most(at) > kFar) demand_le(at, Operand::imm(kFar), CIO_MALFORMED);
}

// A view none of whose fields has been looked for yet has been made wherever it was said to begin.
void ProgramLowering::begins_near(const View& view) {
    if (view->begins_near) return;
    demand_near(view->offset);
    view->begins_near = true;
    undo_.emplace_back([view] { view->begins_near = false; });
}

// Before the size of the field is added to where it begins.
void ProgramLowering::starts_near(const View& view, std::uint32_t index, Operand start) {
    const std::vector<Field>& fields = view->record->fields;
    const Field& f = fields[index];
    if (ends_in_block(f)) return;
    if (is_computed_place(f)) {
        if (!view->fields[index].is_near) demand_near(start);
        return;
    }
    if (!view->begins_near && std::none_of(fields.begin(), fields.begin() + index, ends_in_block)) begins_near(view);
}

// Byte `e` of the record. Where the record begins the block, nothing is added to it here.
ProgramLowering::Place ProgramLowering::place(const View& view, const checked::Expr& e) {
    const Operand said = in_record(view, e);
    Place place{fixed(said), {}, arriving_ || b_.bounds().most(said) <= kFar};
    if (!begins_block(view)) {
        begins_near(view);
        if (!place.is_near) demand_near(place.from_record);
        place.is_near = true;
    }
    place.at = b_.binary(BinOp::add, view->offset, claimed(place.from_record));
    return place;
}

// `_: at e` skips forward: what stands behind it would be bytes of the fields before it, otherwise.
Operand ProgramLowering::gap_end(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    const Place to = place(view, *f.at);
    if (!to.is_near) demand_near(to.from_record);
    if (f.fixed_offset >= 0) {
        demand_le(Operand::imm(static_cast<std::uint64_t>(f.fixed_offset)), to.from_record, CIO_MALFORMED);
    } else if (index > 0 && (begins_block(view) || !arriving_)) {
        ends_before(view, index - 1);
        demand_le(field_end(view, index - 1), arriving_ ? to.from_record : to.at, CIO_MALFORMED);
    }
    return to.at;
}

// Whether where the field ends is known without that of the one before it.
bool ProgramLowering::stands_alone(const View& view, std::uint32_t index) const {
    const Field& f = view->record->fields[index];
    const FieldMemo& memo = view->fields[index];
    if (f.kind == Field::Kind::derived) return false;
    if (is_gap(f) && is_computed_place(f)) return memo.end.has_value();
    return f.at || f.fixed_offset >= 0 || memo.offset || memo.end;
}

// The ends of the fields before this one, as far as it depends on them, one after the other: a record may have more
// fields than the stack has room for.
void ProgramLowering::ends_before(const View& view, std::uint32_t index) {
    std::uint32_t first = index;
    while (first > 0 && !stands_alone(view, first)) first--;
    for (; first < index; first++)
        if (view->record->fields[first].kind != Field::Kind::derived) field_end(view, first);
}

// One past the field's last byte; a field that does not exist, or takes no bytes, ends where it would begin.
Operand ProgramLowering::field_end(const View& view, std::uint32_t index) {
    while (index > 0 && view->record->fields[index].kind == Field::Kind::derived) index--;
    const Field& f = view->record->fields[index];
    FieldMemo& memo = view->fields[index];
    if (memo.end) return *memo.end;
    if (f.kind == Field::Kind::derived || b_.full()) return view->offset;
    const bool gap = is_gap(f);
    if (gap && f.at->kind == checked::ExprKind::int_const) return plus(b_, view->offset, f.at->value);
    if (gap) return remember(view, memo.end, gap_end(view, index));
    if (!f.when) {
        if (f.fixed_offset >= 0 && f.fixed_size >= 0)
            return plus(b_, view->offset, static_cast<std::uint64_t>(f.fixed_offset + f.fixed_size));
        Operand end = existing_end(view, index);
        return memo.end ? *memo.end : remember(view, memo.end, end);
    }
    Operand start = field_offset(view, index);
    starts_near(view, index, start);
    return remember(view, memo.end,
                    choose(exists(view, index), [&] { return existing_end(view, index); }, [&] { return start; }));
}

// So many bytes of a request of which only the beginning is there. More than any has are all the same to who has to
// wait for them, and do not wrap around.
Operand ProgramLowering::claimed(Operand bytes) {
    return arriving_ ? b_.binary(BinOp::umin, bytes, Operand::imm(std::uint64_t{CIO_MAX_BLOCK} + 1)) : bytes;
}

// Where a field of bytes, or an array, ends that need not be there as far as that.
Operand ProgramLowering::claimed_end(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    Operand length = Operand::imm(0);
    if (f.kind == Field::Kind::array)
        length = b_.binary(BinOp::mul, array_count(view, index), Operand::imm(stride_of(f)));
    else if (f.length)
        length = in_record(view, *f.length);
    return b_.binary(BinOp::add, field_offset(view, index), claimed(length));
}

Operand ProgramLowering::existing_end(const View& view, std::uint32_t index) {
    const Field& f = view->record->fields[index];
    Operand start = field_offset(view, index);
    if (!f.when) starts_near(view, index, start);
    if (f.fixed_size >= 0) return plus(b_, start, static_cast<std::uint64_t>(f.fixed_size));
    switch (f.kind) {
        case Field::Kind::varint: {
            if (!f.when) {
                field(view, index);
                return *view->fields[index].end;
            }
            auto [v, length] = varint_at(f.varint, start);
            return b_.binary(BinOp::add, start, length);
        }
        case Field::Kind::cstr: {
            Value v = f.when ? cstr_field(view, index) : field(view, index);
            return plus(b_, b_.binary(BinOp::add, start, v.bytes.length), 1);
        }
        case Field::Kind::record: {
            Value nested = make_view(m_.checked.records[f.record], start, false);
            check_gaps(nested.view);
            return view_end(nested.view);
        }
        case Field::Kind::array: {
            if (arriving_) return claimed_end(view, index);
            Value v = f.when ? array_field(view, index) : field(view, index);
            return b_.binary(BinOp::add, start, b_.binary(BinOp::mul, v.array->count, Operand::imm(v.array->stride)));
        }
        case Field::Kind::bytes:
        case Field::Kind::padding: {
            if (arriving_) return claimed_end(view, index);
            Value v = f.when ? read_field(view, index) : field(view, index);
            return b_.binary(BinOp::add, start, v.bytes.length);
        }
        case Field::Kind::integer:
        case Field::Kind::derived: break;
    }
    return start;
}

Operand ProgramLowering::exists(const View& view, std::uint32_t index) {
    FieldMemo& memo = view->fields[index];
    if (memo.exists) return *memo.exists;
    return remember(view, memo.exists, in_record(view, *view->record->fields[index].when));
}

Operand ProgramLowering::view_end(const View& view) {
    if (view->record->fixed_size >= 0)
        return plus(b_, view->offset, static_cast<std::uint64_t>(view->record->fixed_size));
    if (view->record->fields.empty()) return view->offset;
    return field_end(view, static_cast<std::uint32_t>(view->record->fields.size() - 1));
}

}  // namespace chainio::passes
