// Text rules. A match is one pass over the bytes: each item either takes some of them or ends the match. It runs inside
// a loop of one round, so that a mismatch is a Break; what was captured is in variables, and counts only when `matched`
// was set at the end. Tokens, words and numbers have at least one byte. A choice takes the longest alternative that
// fits.
#include <algorithm>
#include <cassert>

#include "bpf-templates/chainio_step.h"
#include "compiler/passes/lower_program.h"

namespace chainio::passes {

using checked::TextItem;
using ir::BinOp;
using ir::Space;

struct ProgramLowering::TextState {
    const checked::TextRule& rule;
    ir::Reg position;  // of the next byte
    Operand end;
};

namespace {

// Of a number; the checker gives captures of numbers this bound, too.
constexpr std::uint32_t kMostDigits = 20;

Operand reg(ir::Reg r) { return Operand::reg(r); }

}  // namespace

void ProgramLowering::break_unless(Operand cond) {
    if (cond.is_imm && cond.value != 0) return;
    b_.if_(cond, {}, [&] { b_.add(ir::Break{}); });
}

// 1 when the bytes at `at` begin with the literal, all of it before `end`.
Operand ProgramLowering::matches_literal(Space space, Operand at, Operand end, const std::string& literal) {
    ir::Reg same = b_.variable(Operand::imm(0));
    Operand size = Operand::imm(literal.size());
    if_(b_.binary(BinOp::ule, size, b_.binary(BinOp::sub, end, at)), [&] {
        demand(space, at, size, CIO_MALFORMED);
        Operand order = b_.compare({space, at, size}, m_.literal(literal), static_cast<std::uint32_t>(literal.size()));
        b_.assign(same, b_.binary(BinOp::eq, order, Operand::imm(0)));
    });
    return fixed(reg(same));
}

// How many bytes stand before the first `stop` at or behind `at`, looking at no more than `limit` of them; the second
// operand is 1 when there is one.
std::pair<Operand, Operand> ProgramLowering::scan(Operand at, Operand end, const std::string& stop,
                                                  std::uint32_t limit) {
    if (stop.size() == 1) {
        Operand window = b_.binary(BinOp::umin, b_.binary(BinOp::sub, end, at), Operand::imm(limit));
        demand(Space::block, at, window, CIO_MALFORMED);
        Operand length =
            b_.find_byte({Space::block, at, window}, Operand::imm(static_cast<unsigned char>(stop[0])), limit);
        return {length, b_.binary(BinOp::ult, length, window)};
    }
    ir::Reg length = b_.variable(Operand::imm(0)), found = b_.variable(Operand::imm(0));
    loop(Operand::imm(limit), limit, [&](Operand i) {
        b_.assign(length, i);
        Operand here = b_.binary(BinOp::add, at, i);
        break_unless(b_.binary(BinOp::ult, here, end));
        if_(matches_literal(Space::block, here, end, stop), [&] {
            b_.assign(found, Operand::imm(1));
            b_.add(ir::Break{});
        });
        b_.assign(length, b_.binary(BinOp::add, i, Operand::imm(1)));
    });
    return {fixed(reg(length)), fixed(reg(found))};
}

// How many bytes from `at` on are neither blank nor end of line, nor begin the separator.
Operand ProgramLowering::word_length(Operand at, Operand end, const std::string& separator, std::uint32_t limit) {
    ir::Reg length = b_.variable(Operand::imm(0));
    loop(Operand::imm(limit), limit, [&](Operand i) {
        Operand here = b_.binary(BinOp::add, at, i);
        break_unless(b_.binary(BinOp::ult, here, end));
        demand(Space::block, here, Operand::imm(1), CIO_MALFORMED);
        Operand byte = b_.load(Space::block, here, 1);
        Operand blank = b_.binary(BinOp::eq, byte, Operand::imm(' '));
        for (unsigned char c : {'\t', '\r', '\n'})
            blank = b_.binary(BinOp::bit_or, blank, b_.binary(BinOp::eq, byte, Operand::imm(c)));
        if (!separator.empty())
            blank = b_.binary(BinOp::bit_or, blank, matches_literal(Space::block, here, end, separator));
        b_.if_(blank, [&] { b_.add(ir::Break{}); });
        b_.assign(length, b_.binary(BinOp::add, i, Operand::imm(1)));
    });
    return fixed(reg(length));
}

// The digits at `at`: their number (0 when there are none or the value does not fit 64 bits) and the value. One digit
// more than a number may have is looked for, so that zeros before it do not hide that the run goes on; callers refuse
// it.
std::pair<Operand, Operand> ProgramLowering::digits(Operand at, Operand end) {
    constexpr std::uint64_t most = ~std::uint64_t{0};
    ir::Reg length = b_.variable(Operand::imm(0)), value = b_.variable(Operand::imm(0));
    loop(Operand::imm(kMostDigits + 1), kMostDigits + 1, [&](Operand i) {
        Operand here = b_.binary(BinOp::add, at, i);
        break_unless(b_.binary(BinOp::ult, here, end));
        demand(Space::block, here, Operand::imm(1), CIO_MALFORMED);
        Operand digit = b_.binary(BinOp::sub, b_.load(Space::block, here, 1), Operand::imm('0'));
        break_unless(b_.binary(BinOp::ule, digit, Operand::imm(9)));
        Operand tenfold = b_.binary(BinOp::mul, reg(value), Operand::imm(10));
        Operand overflows = b_.binary(BinOp::bit_or, b_.binary(BinOp::ult, Operand::imm(most / 10), reg(value)),
                                      b_.binary(BinOp::ult, b_.binary(BinOp::sub, Operand::imm(most), digit), tenfold));
        b_.if_(overflows, [&] {
            b_.assign(length, Operand::imm(0));
            b_.add(ir::Break{});
        });
        b_.assign(value, b_.binary(BinOp::add, tenfold, digit));
        b_.assign(length, b_.binary(BinOp::add, i, Operand::imm(1)));
    });
    return {fixed(reg(length)), fixed(reg(value))};
}

namespace {

Value capture_variables(ir::Builder& b, const TextItem& item, const checked::Type& type) {
    auto variable = [&] { return Operand::reg(b.variable(Operand::imm(0), item.name)); };
    if (item.repeat_max > 1 || type.kind == checked::TypeKind::array) {
        Value v;
        v.kind = Value::Kind::repeat;
        v.repeat = std::make_shared<RepeatData>(RepeatData{&item, {Space::block, variable(), variable()}, variable()});
        return v;
    }
    if (type.kind == checked::TypeKind::integer) return Value::of(variable());
    return Value::of(ir::Slice{Space::block, variable(), variable()}, std::max(item.max, 1u));
}

}  // namespace

Value ProgramLowering::text_match(const checked::TextRule& rule, const Value& subject) {
    Value result;
    result.kind = Value::Kind::text;
    result.text = std::make_shared<TextData>(TextData{&rule, {}});
    for (const TextItem& item : rule.items)
        if (item.capture >= 0)
            result.text->captures.push_back(
                capture_variables(b_, item, rule.captures[static_cast<std::size_t>(item.capture)]));
    ir::Reg matched = b_.variable(Operand::imm(0), "matched");
    TextState state{rule, b_.variable(subject.bytes.offset, "position"),
                    b_.binary(BinOp::add, subject.bytes.offset, subject.bytes.length)};
    once([&] {
        for (std::size_t i = 0; i < rule.items.size(); i++) {
            const TextItem& item = rule.items[i];
            Value none;
            text_item(state, i,
                      item.capture < 0 ? none : result.text->captures[static_cast<std::size_t>(item.capture)]);
        }
        b_.assign(matched, Operand::imm(1));
    });
    for (Value& capture : result.text->captures) {
        if (capture.kind == Value::Kind::bytes)
            demand(Space::block, capture.bytes.offset, capture.bytes.length, CIO_MALFORMED);
        if (capture.kind == Value::Kind::repeat)
            demand(Space::block, capture.repeat->bytes.offset, capture.repeat->bytes.length, CIO_MALFORMED);
    }
    result.present = fixed(reg(matched));
    return result;
}

void ProgramLowering::advance(TextState& state, Operand by) {
    b_.assign(state.position, b_.binary(BinOp::add, reg(state.position), by));
}

void ProgramLowering::text_item(TextState& state, std::size_t index, const Value& target) {
    const TextItem& item = state.rule.items[index];
    Operand at = fixed(reg(state.position));
    if (item.kind == TextItem::Kind::literal) {
        break_unless(matches_literal(Space::block, at, state.end, item.literals[0]));
        return advance(state, Operand::imm(item.literals[0].size()));
    }
    const std::string stop =
        index + 1 < state.rule.items.size() && state.rule.items[index + 1].kind == TextItem::Kind::literal
            ? state.rule.items[index + 1].literals[0]
            : std::string();
    if (target.kind == Value::Kind::repeat) return text_repeat(state, item, stop, *target.repeat);
    switch (item.kind) {
        case TextItem::Kind::choice: return text_choice(state, item, target);
        case TextItem::Kind::token: {
            auto [length, found] = scan(at, state.end, stop, window_of(item.max));
            break_unless(found);
            return take(state, at, length, target);
        }
        case TextItem::Kind::word: {
            Operand length = word_length(at, state.end, {}, window_of(item.max));
            break_unless(b_.binary(BinOp::ule, length, Operand::imm(item.max)));
            return take(state, at, length, target);
        }
        case TextItem::Kind::integer: {
            auto [length, value] = digits(at, state.end);
            break_unless(b_.binary(BinOp::ult, b_.binary(BinOp::sub, length, Operand::imm(1)), Operand::imm(item.max)));
            b_.assign(static_cast<ir::Reg>(target.scalar.value), value);
            return advance(state, length);
        }
        case TextItem::Kind::rest: {
            Operand length = b_.binary(BinOp::umin, b_.binary(BinOp::sub, state.end, at), Operand::imm(item.max));
            assign_value(target, Value::of(ir::Slice{Space::block, at, length}, item.max));
            return b_.assign(state.position, state.end);
        }
        case TextItem::Kind::literal: break;
    }
}

// Captures `length` bytes at the position, of which there is at least one.
void ProgramLowering::take(TextState& state, Operand at, Operand length, const Value& target) {
    break_unless(length);
    assign_value(target, Value::of(ir::Slice{Space::block, at, length}, target.max));
    advance(state, length);
}

void ProgramLowering::text_choice(TextState& state, const TextItem& item, const Value& target) {
    std::vector<std::string> choices = item.literals;
    std::ranges::sort(choices, [](const std::string& a, const std::string& b) {
        return a.size() != b.size() ? a.size() > b.size() : a < b;
    });
    Operand at = fixed(reg(state.position));
    ir::Reg length = b_.variable(Operand::imm(0));
    once([&] {
        for (const std::string& choice : choices) {
            if_(matches_literal(Space::block, at, state.end, choice), [&] {
                b_.assign(length, Operand::imm(choice.size()));
                b_.add(ir::Break{});
            });
        }
    });
    take(state, at, fixed(reg(length)), target);
}

// The repetition of a token ends where the literal behind it begins; words and numbers end by themselves.
void ProgramLowering::text_repeat(TextState& state, const TextItem& item, const std::string& stop,
                                  const RepeatData& target) {
    Operand start = fixed(reg(state.position));
    auto separator = static_cast<std::uint32_t>(item.separator.size());
    Operand end = state.end;
    bool is_token = item.kind == TextItem::Kind::token;
    if (is_token && !stop.empty()) {
        std::uint32_t longest = std::min<std::uint32_t>(item.repeat_max * (item.max + separator) + 1, CIO_MAX_BLOCK);
        auto [length, found] = scan(start, state.end, stop, longest);
        break_unless(found);
        end = b_.binary(BinOp::add, start, length);
    }
    ir::Reg position = b_.variable(start), count = b_.variable(Operand::imm(0)), last = b_.variable(start);
    ir::Reg good = b_.variable(Operand::imm(1));
    loop(Operand::imm(item.repeat_max), item.repeat_max, [&](Operand) {
        Operand at = fixed(reg(position));
        Operand length;
        if (is_token) {
            length = scan(at, end, item.separator, window_of(item.max)).first;
        } else if (item.kind == TextItem::Kind::integer) {
            length = digits(at, end).first;
        } else {
            length = word_length(at, end, item.separator, window_of(item.max));
        }
        Operand fits = b_.binary(BinOp::ult, b_.binary(BinOp::sub, length, Operand::imm(1)), Operand::imm(item.max));
        b_.assign(good, fits);
        break_unless(fits);
        b_.assign(count, b_.binary(BinOp::add, reg(count), Operand::imm(1)));
        Operand behind = b_.binary(BinOp::add, at, length);
        b_.assign(last, behind);
        break_unless(matches_literal(Space::block, behind, end, item.separator));
        b_.assign(position, b_.binary(BinOp::add, behind, Operand::imm(separator)));
    });
    break_unless(reg(good));
    break_unless(b_.binary(BinOp::ule, Operand::imm(item.repeat_min), reg(count)));
    if (is_token && !stop.empty()) break_unless(b_.binary(BinOp::eq, reg(last), end));
    b_.assign(static_cast<ir::Reg>(target.bytes.offset.value), start);
    b_.assign(static_cast<ir::Reg>(target.bytes.length.value), b_.binary(BinOp::sub, reg(last), start));
    b_.assign(static_cast<ir::Reg>(target.count.value), reg(count));
    b_.assign(state.position, reg(last));
}

// The repetition that begins at `at`, and where the one after it would begin.
std::pair<Value, Operand> ProgramLowering::repetition(const RepeatData& repeat, Operand at) {
    const TextItem& item = *repeat.item;
    Operand end = b_.binary(BinOp::add, repeat.bytes.offset, repeat.bytes.length);
    Operand length = scan(at, end, item.separator, window_of(std::max(item.max, kMostDigits))).first;
    demand(Space::block, at, length, CIO_MALFORMED);
    Operand after = b_.binary(BinOp::add, b_.binary(BinOp::add, at, length), Operand::imm(item.separator.size()));
    ir::Slice slice{Space::block, at, length};
    if (item.kind != TextItem::Kind::integer) return {Value::of(slice, item.max), after};
    ir::Reg number = b_.new_reg();
    b_.add(ir::ParseDecimal{number, slice, CIO_MALFORMED});
    return {Value::of(reg(number)), after};
}

Value ProgramLowering::repeat_element(const RepeatData& repeat, Operand index) {
    ir::Reg position = b_.variable(repeat.bytes.offset);
    loop(index, repeat.item->repeat_max,
         [&](Operand) { b_.assign(position, repetition(repeat, fixed(reg(position))).second); });
    return repetition(repeat, fixed(reg(position))).first;
}

void ProgramLowering::iterate_repeat(const RepeatData& repeat, const Cut& cut, const std::function<void(Value)>& each) {
    std::uint32_t bound = cut.max != 0 ? std::min(cut.max, repeat.item->repeat_max) : repeat.item->repeat_max;
    ir::Reg position = b_.variable(repeat.bytes.offset);
    rounds(b_.binary(BinOp::umin, repeat.count, Operand::imm(bound)), bound, cut, [&](Operand) {
        auto [value, after] = repetition(repeat, fixed(reg(position)));
        b_.assign(position, after);
        each(value);
    });
}

}  // namespace chainio::passes
