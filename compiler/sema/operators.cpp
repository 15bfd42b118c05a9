// Operators, casts, and the two conditional forms.
#include <algorithm>
#include <utility>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Binary;
using checked::ExprKind;
using checked::Type;
using checked::TypeKind;

namespace {

bool is_scalar_constant(const Value& v) {
    return v.expr->kind == ExprKind::int_const || v.expr->kind == ExprKind::bool_const;
}

bool is_name(const ast::Expr& e) { return std::holds_alternative<ast::NameRef>(e.node); }

const char* spelling(Binary op) {
    static constexpr const char* words[] = {"*", "/", "%",  "+", "-",  "<<", ">>", "&",  "^",
                                            "|", "<", "<=", ">", ">=", "==", "!=", "&&", "||"};
    return words[static_cast<int>(op)];
}

bool is_one_byte(const Value& v) { return v.expr->kind == ExprKind::bytes_const && v.expr->bytes.size() == 1; }

std::string hex_of_byte(const Value& v) {
    static constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(v.expr->bytes[0]);
    return std::string("0x") + digits[byte >> 4U] + digits[byte & 15U];
}

// Whether the bits of the result may still be those of a signed integer: they are the same for both.
bool keeps_mask(Binary op, const Value& left, const Value& right) {
    if (op == Binary::shl) return left.mask;
    if (op < Binary::bit_and || op > Binary::bit_or) return false;
    return (left.mask || right.mask) && (left.mask || left.flexible) && (right.mask || right.flexible);
}

// The bits stay; of a choice between constants, those of each.
void become_signed(checked::Expr& e) {
    e.type.is_signed = true;
    if (e.kind == ExprKind::let_in) return become_signed(*e.kids.back());
    if (e.kind != ExprKind::cond) return;
    for (std::size_t i = 1; i < e.kids.size(); i++) become_signed(*e.kids[i]);
}

}  // namespace

Value Checker::unary(const ast::Expr& e, const ast::Unary& n) {
    if (n.op == ast::UnaryOp::logical_not) {
        Value v = boolean(*n.operand, "the operand of `!`");
        if (!v) return v;
        if (is_scalar_constant(v)) return fold_unary(checked::Unary::logical_not, std::move(v), e.span);
        Value out = make(ExprKind::unary, {TypeKind::boolean}, e.span);
        out.expr->index = static_cast<std::uint32_t>(checked::Unary::logical_not);
        out.expr->kids.push_back(std::move(v.expr));
        return out;
    }
    const bool negate = n.op == ast::UnaryOp::negate;
    Value v = integer(*n.operand, negate ? "the operand of `-`" : "the operand of `~`");
    if (!v) return v;
    if (negate && !v.flexible && !v.expr->type.is_signed) {
        error(mixed_signedness, e.span, "`-` of an unsigned integer", "convert it first: `-(… as i64)`");
        return {};
    }
    const auto op = negate ? checked::Unary::negate : checked::Unary::bit_not;
    if (is_scalar_constant(v)) return fold_unary(op, std::move(v), e.span);
    // What `-` makes of a choice between constants may be below 0, as what it makes of one of them.
    if (negate && v.flexible && !adapt(v, true)) return {};
    Value out = make(ExprKind::unary, {TypeKind::integer, 64, v.expr->type.is_signed}, e.span);
    out.unit = v.unit;
    out.expr->index = static_cast<std::uint32_t>(op);
    out.expr->kids.push_back(std::move(v.expr));
    return out;
}

Value Checker::binary(const ast::Expr& e, const ast::Binary& n) {
    static constexpr Binary ops[] = {
        Binary::mul, Binary::div,     Binary::mod,     Binary::add,    Binary::sub,         Binary::shl,
        Binary::shr, Binary::bit_and, Binary::bit_xor, Binary::bit_or, Binary::lt,          Binary::le,
        Binary::gt,  Binary::ge,      Binary::eq,      Binary::ne,     Binary::logical_and, Binary::logical_or};
    const Binary op = ops[static_cast<int>(n.op)];
    if (op >= Binary::logical_and) return logical(e, n, op);
    if (op >= Binary::lt) return compare(e, n, op);
    if (op == Binary::shl || op == Binary::shr) return shift(e, n, op);
    return arithmetic(e, n, op);
}

Value Checker::logical(const ast::Expr& e, const ast::Binary& n, Binary op) {
    const std::string what = std::string("a side of `") + spelling(op) + "`";
    Value left = boolean(*n.left, what);
    Value right = boolean(*n.right, what);
    if (!left || !right) return {};
    return join(std::move(left), std::move(right), op, e.span);
}

// What is joined already takes one more side: thousands of tests then are one wide node, and no recursion goes along
// them.
Value Checker::join(Value left, Value right, Binary op, Span span) {
    const bool stops = op == Binary::logical_or;
    if (left.expr->kind == ExprKind::bool_const)
        return (left.expr->value != 0) == stops ? std::move(left) : std::move(right);
    if (left.expr->kind == ExprKind::binary && left.expr->index == static_cast<std::uint32_t>(op)) {
        left.expr->span = span;
        left.expr->kids.push_back(std::move(right.expr));
        return left;
    }
    Value out = make(ExprKind::binary, {TypeKind::boolean}, span);
    out.expr->index = static_cast<std::uint32_t>(op);
    out.expr->kids.push_back(std::move(left.expr));
    out.expr->kids.push_back(std::move(right.expr));
    return out;
}

// What `~` made of a constant becomes signed when it meets something that is.
void Checker::meet(Value& mask, const Type& other) {
    if (!mask.mask || other.kind != TypeKind::integer || !other.is_signed) return;
    become_signed(*mask.expr);
    mask.mask = false;
}

// Both integers get one signedness, a constant that of the other side.
bool Checker::unify(Value& a, Value& b, Span span) {
    meet(a, b.expr->type);
    meet(b, a.expr->type);
    if (a.flexible && b.flexible) {
        if (is_scalar_constant(a) && is_scalar_constant(b)) return true;
        const bool to_signed = a.expr->type.is_signed || b.expr->type.is_signed;
        return adapt(a, to_signed) && adapt(b, to_signed);
    }
    if (a.flexible) return adapt(a, b.expr->type.is_signed);
    if (b.flexible) return adapt(b, a.expr->type.is_signed);
    if (a.expr->type.is_signed == b.expr->type.is_signed) return true;
    error(mixed_signedness, span, "a signed and an unsigned integer do not mix",
          "convert one of them with `as i64` or `as u64`");
    return false;
}

bool Checker::join_units(const Value& a, const Value& b, Binary op, Span span, ast::Unit& out) {
    using ast::Unit;
    const bool differ = a.unit != Unit::none && b.unit != Unit::none && a.unit != b.unit;
    const bool square = op == Binary::mul && a.unit != Unit::none && b.unit != Unit::none;
    if (differ || square) {
        const auto word = [](Unit u) { return u == Unit::time ? "a time" : "a size"; };
        error(unit_mismatch, span, std::string("`") + spelling(op) + "` of " + word(a.unit) + " and " + word(b.unit),
              square && !differ ? "one side of `*` is a plain number" : "bring both to the same kind");
        return false;
    }
    if (op == Binary::div && a.unit != Unit::none && a.unit == b.unit)
        out = Unit::none;
    else
        out = a.unit != Unit::none ? a.unit : (op == Binary::div || op == Binary::mod ? Unit::none : b.unit);
    return true;
}

Value Checker::compare(const ast::Expr& e, const ast::Binary& n, Binary op) {
    Value left, right;
    if (is_name(*n.left) && !is_name(*n.right)) {
        right = value(*n.right);
        left = near_choices(*n.left, right ? right.facts : nullptr);
    } else {
        left = value(*n.left);
        right = near_choices(*n.right, left ? left.facts : nullptr);
    }
    if (!left || !right) return {};
    warn_constant_compare(left, right, op, *n.right, e.span);
    return compare_values(std::move(left), std::move(right), op, e.span, n.op_span);
}

Value Checker::compare_values(Value left, Value right, Binary op, Span span, Span op_span) {
    const TypeKind kind = left.expr->type.kind;
    const bool equality = op == Binary::eq || op == Binary::ne;
    if (kind != right.expr->type.kind ||
        (kind != TypeKind::integer && kind != TypeKind::bytes && !(kind == TypeKind::boolean && equality))) {
        std::string hint = "compare integers with integers and bytes with bytes";
        const TypeKind other = right.expr->type.kind;
        const Value* byte = is_one_byte(right) ? &right : is_one_byte(left) ? &left : nullptr;
        const auto is_u8 = [](const Value& v) {
            return v.expr->type.kind == TypeKind::integer && v.expr->type.bits == 8;
        };
        if (byte != nullptr && (is_u8(left) || is_u8(right)))
            hint = "a byte is a number: compare it with " + hex_of_byte(*byte) +
                   ", or a slice, `b[i..i + 1]`, with the text";
        else if (kind == TypeKind::boolean && other == TypeKind::integer && !equality)
            hint = "compare twice: `a < b && b < c`";
        else if (kind == TypeKind::bytes && other == TypeKind::integer)
            hint = "read a number from the bytes: `.uint_be()`, `.uint_le()` or `.decimal()`";
        error(not_comparable, span,
              describe(left.expr->type) + " and " + describe(right.expr->type) + " cannot be compared with `" +
                  spelling(op) + "`",
              std::move(hint));
        return {};
    }
    if (kind == TypeKind::integer) {
        ast::Unit unit;
        if (!join_units(left, right, op, op_span, unit) || !unify(left, right, op_span)) return {};
        if (is_scalar_constant(left) && is_scalar_constant(right))
            return fold_binary(op, std::move(left), std::move(right), span);
    }
    if (kind == TypeKind::boolean && is_scalar_constant(left) && is_scalar_constant(right))
        return fold_binary(op, std::move(left), std::move(right), span);
    if (kind == TypeKind::bytes && left.expr->kind == ExprKind::bytes_const &&
        right.expr->kind == ExprKind::bytes_const) {
        const int order = left.expr->bytes.compare(right.expr->bytes);  // as unsigned bytes, then by length
        Value sign = make(ExprKind::int_const, {TypeKind::integer, 64, true}, span);
        sign.expr->value = static_cast<std::uint64_t>(static_cast<std::int64_t>(order));
        Value zero = make(ExprKind::int_const, {TypeKind::integer, 64, true}, span);
        return fold_binary(op, std::move(sign), std::move(zero), span);
    }
    if (kind == TypeKind::bytes && left.exact && right.exact && *left.exact != *right.exact && equality) {
        warn(condition_constant, span,
             "bytes of length " + std::to_string(*left.exact) + " never equal bytes of length " +
                 std::to_string(*right.exact),
             "compare slices of the same length");
    }
    Value out = make(ExprKind::binary, {TypeKind::boolean}, span);
    out.expr->index = static_cast<std::uint32_t>(op);
    out.expr->kids.push_back(std::move(left.expr));
    out.expr->kids.push_back(std::move(right.expr));
    return out;
}

// A comparison that the widths decide. Only against a literal: a constant with a name may have other values elsewhere.
void Checker::warn_constant_compare(const Value& left, const Value& right, Binary op, const ast::Expr& right_ast,
                                    Span span) {
    if (!std::holds_alternative<ast::IntLit>(right_ast.node) || is_scalar_constant(left)) return;
    const Type& type = left.expr->type;
    if (type.kind != TypeKind::integer || type.is_signed || right.expr->kind != ExprKind::int_const) return;
    const std::uint64_t n = right.expr->value;
    const std::uint64_t top = type.bits == 64 ? ~0ULL : (1ULL << type.bits) - 1;
    const bool always = (op == Binary::ge && n == 0) || (op == Binary::lt && n > top) ||
                        (op == Binary::le && n >= top) || (op == Binary::ne && n > top);
    const bool never = (op == Binary::lt && n == 0) || (op == Binary::gt && n >= top) ||
                       (op == Binary::ge && n > top) || (op == Binary::eq && n > top);
    const bool equality = op == Binary::eq || op == Binary::ne;
    if (equality && !never && !always && left.chosen && left.facts && !left.facts->choices.empty() &&
        std::ranges::none_of(left.facts->choices, [&](const auto& choice) { return choice.second == n; })) {
        warn(condition_constant, span,
             std::string("this is always ") + (op == Binary::ne ? "true" : "false") + ": the field is never " +
                 std::to_string(n),
             "its values are the ones given with `in { … }` in the record");
        return;
    }
    if (!always && !never) return;
    warn(condition_constant, span,
         std::string("this is always ") + (always ? "true" : "false") + ": a " + describe(type) + " is 0 to " +
             std::to_string(top),
         "remove the comparison, or correct the number");
}

Value Checker::arithmetic(const ast::Expr& e, const ast::Binary& n, Binary op) {
    const std::string what = std::string("a side of `") + spelling(op) + "`";
    Value left = value(*n.left), right = value(*n.right);
    const auto is_bytes = [](const Value& v) { return v && v.expr->type.kind == TypeKind::bytes; };
    if (op == Binary::add && is_bytes(left) && is_bytes(right)) {
        const bool is_reply = env_.site == Site::handler, is_step = env_.site == Site::step || env_.site == Site::done;
        wrong(left, e.span, "an integer", what,
              is_reply  ? "parts of a reply stand one behind the other: `reply a, b`"
              : is_step ? "bytes are put together one behind the other: `emit a, b`, or `k.append(b)` of a variable"
                        : "only the steps of a chain, and replies, put bytes together");
        return {};
    }
    if (op == Binary::bit_or && is_bytes(left) && is_bytes(right)) {
        wrong(left, e.span, "an integer", what,
              "alternatives stand behind `,`: `match k { \"a\", \"b\" { … } }`, `k in (\"a\", \"b\")`");
        return {};
    }
    const auto integer_of = [&](Value v, Span span) {
        return v && v.expr->type.kind != TypeKind::integer ? wrong(v, span, "an integer", what) : std::move(v);
    };
    left = integer_of(std::move(left), n.left->span);
    right = integer_of(std::move(right), n.right->span);
    if (!left || !right) return {};
    return arithmetic_values(std::move(left), std::move(right), op, e.span, n.op_span);
}

Value Checker::arithmetic_values(Value left, Value right, Binary op, Span span, Span op_span) {
    ast::Unit unit = ast::Unit::none;
    const bool mask = keeps_mask(op, left, right);
    if (!join_units(left, right, op, op_span, unit) || !unify(left, right, op_span)) return {};
    if (op == Binary::div || op == Binary::mod) {
        if (right.expr->kind == ExprKind::int_const && right.expr->value == 0) {
            error(division_by_zero, right.expr->span, "division by zero", "divide by something else");
            return {};
        }
        if (!(left.flexible && right.flexible) && left.expr->type.is_signed) {
            error(signed_division, op_span, std::string("`") + spelling(op) + "` of signed integers",
                  "convert both with `as u64`, once neither can be negative");
            return {};
        }
    }
    if (is_scalar_constant(left) && is_scalar_constant(right)) {
        Value out = fold_binary(op, std::move(left), std::move(right), span);
        if (out) {
            out.unit = unit;
            out.mask = mask && !out.expr->type.is_signed;
        }
        return out;
    }
    Value out = make(ExprKind::binary, {TypeKind::integer, 64, left.expr->type.is_signed}, span);
    out.unit = unit;
    out.expr->index = static_cast<std::uint32_t>(op);
    out.expr->kids.push_back(std::move(left.expr));
    out.expr->kids.push_back(std::move(right.expr));
    return out;
}

Value Checker::shift(const ast::Expr& e, const ast::Binary& n, Binary op) {
    Value left = integer(*n.left, "the left side of a shift");
    Value right = unsigned_integer(*n.right, "a shift count");
    if (!left || !right) return {};
    if (right.expr->kind == ExprKind::int_const && right.expr->value >= 64) {
        error(shift_too_large, right.expr->span, "a shift by " + std::to_string(right.expr->value) + " bits",
              "shift by 0 to 63");
        return {};
    }
    if (is_scalar_constant(left) && is_scalar_constant(right)) {
        right.flexible = left.flexible;
        const bool mask = keeps_mask(op, left, right);
        Value out = fold_binary(op, std::move(left), std::move(right), e.span);
        out.mask = mask;
        return out;
    }
    settle(left);
    Value out = make(ExprKind::binary, {TypeKind::integer, 64, left.expr->type.is_signed}, e.span);
    out.expr->index = static_cast<std::uint32_t>(op);
    out.expr->kids.push_back(std::move(left.expr));
    out.expr->kids.push_back(std::move(right.expr));
    return out;
}

// One of several values of which the compiler knows that it is the one: it is as wide as they are together, as it would
// be if the run chose it.
Value Checker::widened(Value v, const Type& type) {
    if (type.kind != TypeKind::integer || v.expr->type.bits >= type.bits) return v;
    if (v.expr->kind == ExprKind::int_const) {
        v.expr->type.bits = type.bits;
        return v;
    }
    if (!type.is_signed) v.most = largest(v);
    checked::ExprPtr wide = make(ExprKind::cast, type, v.expr->span).expr;
    wide->kids.push_back(std::exchange(v.expr, nullptr));
    v.expr = std::move(wide);
    return v;
}

Value Checker::conditional(const ast::Expr& e, const ast::Cond& n) {
    Value condition = boolean(*n.condition, "the condition of `? :`");
    Value yes = value(*n.yes), no = value(*n.no);
    if (!condition || !yes || !no) return {};
    const TypeKind kind = yes.expr->type.kind;
    if (kind != no.expr->type.kind) {
        error(branches_differ, e.span,
              "one side of `? :` is " + describe(yes.expr->type) + ", the other " + describe(no.expr->type),
              "give both sides the same type");
        return {};
    }
    Type type = yes.expr->type;
    ast::Unit unit = ast::Unit::none;
    bool flexible = false, mask = false;
    if (kind == TypeKind::integer) {
        if (!join_units(yes, no, Binary::add, e.span, unit)) return {};
        mask = keeps_mask(Binary::bit_or, yes, no);
        flexible = yes.flexible && no.flexible && yes.expr->type.is_signed == no.expr->type.is_signed;
        if (!flexible && !unify(yes, no, e.span)) return {};
        if (!flexible && yes.expr->type.is_signed != no.expr->type.is_signed && (!adapt(yes, true) || !adapt(no, true)))
            return {};
        type = {TypeKind::integer, std::max(yes.expr->type.bits, no.expr->type.bits), yes.expr->type.is_signed};
    }
    if (is_scalar_constant(condition))
        return widened(condition.expr->value != 0 ? std::move(yes) : std::move(no), type);
    const bool views = kind == TypeKind::view && yes.expr->type.record == no.expr->type.record;
    if (kind == TypeKind::array || kind == TypeKind::text || (kind == TypeKind::view && !views)) {
        error(branches_differ, e.span, "`? :` chooses between integers, bools or bytes, not " + describe(type),
              "use `if`, or choose between the offsets: `(c ? a : b).as(R)`");
        return {};
    }
    Value out = make(ExprKind::cond, type, e.span);
    if (kind == TypeKind::bytes) {
        if (yes.place != no.place) {
            error(mixed_places, e.span,
                  "the two sides of `? :` live in different places (block, arguments, state or constants)",
                  "use `if`, and do the work on each side");
            return {};
        }
        out.expr->type.max = std::max(yes.expr->type.max, no.expr->type.max);
        out.place = yes.place;
        if (yes.exact == no.exact) out.exact = yes.exact;
    }
    out.unit = unit;
    out.flexible = flexible;
    out.mask = mask && !type.is_signed;
    out.facts = yes.facts == no.facts ? yes.facts : nullptr;
    out.chosen = yes.chosen && no.chosen;
    out.expr->kids.push_back(std::move(condition.expr));
    out.expr->kids.push_back(std::move(yes.expr));
    out.expr->kids.push_back(std::move(no.expr));
    return out;
}

// `x in (a, b)`: x == a || x == b, with x evaluated once.
Value Checker::in_set(const ast::Expr& e, const ast::InSet& n) {
    Value subject = value(*n.value);
    if (!subject) {
        for (const auto& choice : n.choices)
            if (!is_name(*choice)) value(*choice);
        return {};
    }
    checked::ExprPtr first;
    Value named = name_local(std::move(subject), "in", &first);
    Value out;
    bool ok = true;
    for (const auto& choice : n.choices) {
        Value item = near_choices(*choice, named.facts);
        if (item) warn_constant_compare(named, item, Binary::eq, *choice, choice->span);
        Value test =
            item ? compare_values(clone(named), std::move(item), Binary::eq, choice->span, choice->span) : Value{};
        if (!test) {
            ok = false;
        } else if (!out) {
            out = std::move(test);
        } else {
            out = join(std::move(out), std::move(test), Binary::logical_or, e.span);
        }
    }
    if (!ok || !out) return {};
    out.expr->span = e.span;
    return wrap(std::move(out), named, std::move(first));
}

Value Checker::cast(const ast::Expr& e, const ast::Cast& n) {
    Value v = value(*n.value);
    auto type = scalar_type(n.type, "the target of `as`", true);
    if (!v || !type) return {};
    if (v.expr->type.kind != TypeKind::integer || type->kind != TypeKind::integer) {
        std::string hint = "`as` converts integers to integers";
        if (v.expr->type.kind == TypeKind::bytes)
            hint = "read a number from the bytes: `.uint_be()`, `.uint_le()` or `.decimal()`";
        if (v.expr->type.kind == TypeKind::boolean) hint = "choose a number: `… ? 1 : 0`";
        if (type->kind == TypeKind::boolean) hint = "compare instead: `… != 0`";
        error(bad_cast, e.span, describe(v.expr->type) + " does not convert to " + describe(*type), std::move(hint));
        return {};
    }
    if (v.expr->kind == ExprKind::int_const) {
        std::uint64_t bits = v.expr->value;
        if (type->bits < 64) {
            bits &= (1ULL << type->bits) - 1;
            if (type->is_signed && (bits >> (type->bits - 1)) != 0) bits |= ~((1ULL << type->bits) - 1);
        }
        Value out = int_constant(bits, e.span);
        out.expr->type = *type;
        return out;
    }
    Value out = make(ExprKind::cast, *type, e.span);
    out.expr->kids.push_back(std::move(v.expr));
    return out;
}

}  // namespace chainio::sema
