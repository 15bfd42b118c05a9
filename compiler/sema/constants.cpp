// Constants: evaluated on demand, exactly while they have no type, wrapping once they have one.
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Binary;
using checked::ExprKind;
using checked::TypeKind;

namespace {

constexpr Wide kLowest = -(static_cast<Wide>(1) << 63);
constexpr Wide kHighest = (static_cast<Wide>(1) << 64) - 1;

bool is_constant(const Value& v) {
    return v.expr->kind == ExprKind::int_const || v.expr->kind == ExprKind::bool_const ||
           v.expr->kind == ExprKind::bytes_const;
}

std::string spelled(Wide v) {
    if (v < 0) return "-" + spelled(-v);
    std::string out;
    do {
        out.insert(out.begin(), static_cast<char>('0' + static_cast<int>(v % 10)));
        v /= 10;
    } while (v > 0);
    return out;
}

// A time in the largest unit of which it is a whole number.
std::string spelled_time(Wide ns) {
    struct Unit {
        const char* name;
        Wide ns;
    };
    constexpr Unit kUnits[] = {{"h", 3'600'000'000'000}, {"m", 60'000'000'000}, {"s", 1'000'000'000},
                               {"ms", 1'000'000},        {"us", 1'000},         {"ns", 1}};
    const Unit* unit = kUnits;
    while (unit->ns > 1 && (ns == 0 || ns % unit->ns != 0)) unit++;
    return spelled(ns / unit->ns) + unit->name;
}

std::uint64_t fold_typed(Binary op, std::uint64_t a, std::uint64_t b, bool is_signed) {
    const auto sa = static_cast<std::int64_t>(a), sb = static_cast<std::int64_t>(b);
    switch (op) {
        case Binary::mul: return a * b;
        case Binary::div: return b == 0 ? 0 : a / b;
        case Binary::mod: return b == 0 ? 0 : a % b;
        case Binary::add: return a + b;
        case Binary::sub: return a - b;
        case Binary::shl: return a << (b & 63);
        case Binary::shr: return is_signed ? static_cast<std::uint64_t>(sa >> (b & 63)) : a >> (b & 63);
        case Binary::bit_and: return a & b;
        case Binary::bit_xor: return a ^ b;
        case Binary::bit_or: return a | b;
        case Binary::lt: return is_signed ? sa < sb : a < b;
        case Binary::le: return is_signed ? sa <= sb : a <= b;
        case Binary::gt: return is_signed ? sa > sb : a > b;
        case Binary::ge: return is_signed ? sa >= sb : a >= b;
        case Binary::eq: return a == b;
        case Binary::ne: return a != b;
        case Binary::logical_and: return a != 0 && b != 0;
        case Binary::logical_or: return a != 0 || b != 0;
    }
    return 0;
}

bool is_comparison(Binary op) { return op >= Binary::lt && op <= Binary::ne; }

}  // namespace

Wide exact(const Value& v) {
    return v.expr->type.is_signed ? static_cast<Wide>(static_cast<std::int64_t>(v.expr->value))
                                  : static_cast<Wide>(v.expr->value);
}

Value Checker::exact_constant(Wide v, Span span, ast::Unit unit) {
    if (v < kLowest || v > kHighest) {
        error(constant_overflow, span, "this constant does not fit 64 bits",
              "keep constants between -2^63 and 2^64 - 1");
        return {};
    }
    Value out = int_constant(static_cast<std::uint64_t>(v), span);
    out.expr->type.is_signed = v < 0;
    out.flexible = true;
    out.unit = unit;
    return out;
}

// Both sides are constants without a type: the exact result.
Value Checker::fold_exact(Binary op, const Value& left, const Value& right, Span span) {
    const Wide a = exact(left), b = exact(right);
    if (is_comparison(op)) {
        const bool result = op == Binary::lt   ? a < b
                            : op == Binary::le ? a <= b
                            : op == Binary::gt ? a > b
                            : op == Binary::ge ? a >= b
                            : op == Binary::eq ? a == b
                                               : a != b;
        return bool_constant(result, span);
    }
    Wide result = 0;
    switch (op) {
        case Binary::mul:
            // The operands are below 2^64 in size, so a product can leave 128 bits only when both are near that.
            if (a != 0 && b != 0 && ((a < 0 ? -a : a) > kHighest / (b < 0 ? -b : b)))
                return exact_constant(kHighest + 1, span, left.unit);
            result = a * b;
            break;
        case Binary::div: result = a / b; break;
        case Binary::mod: result = a % b; break;
        case Binary::add: result = a + b; break;
        case Binary::sub: result = a - b; break;
        case Binary::shl: result = a * (static_cast<Wide>(1) << static_cast<int>(b)); break;
        case Binary::shr: result = a >> static_cast<int>(b); break;
        // As if negative numbers had ones without end above their highest bit.
        case Binary::bit_and: result = a & b; break;
        case Binary::bit_xor: result = a ^ b; break;
        case Binary::bit_or: result = a | b; break;
        default: break;
    }
    return exact_constant(result, span, left.unit);
}

Value Checker::fold_binary(Binary op, Value left, Value right, Span span) {
    if (left.flexible && right.flexible) return fold_exact(op, left, right, span);
    const std::uint64_t result = fold_typed(op, left.expr->value, right.expr->value, left.expr->type.is_signed);
    if (is_comparison(op)) return bool_constant(result != 0, span);
    Value out = int_constant(result, span);
    out.expr->type.is_signed = left.expr->type.is_signed;
    return out;
}

Value Checker::fold_unary(checked::Unary op, Value v, Span span) {
    switch (op) {
        case checked::Unary::logical_not: return bool_constant(v.expr->value == 0, span);
        case checked::Unary::negate:
            if (v.flexible) return exact_constant(-exact(v), span, v.unit);
            v.expr->value = 0 - v.expr->value;
            v.expr->type.bits = 64;
            return v;
        case checked::Unary::bit_not:
            if (v.flexible && exact(v) < 0) return exact_constant(-exact(v) - 1, span, v.unit);
            v.mask |= v.flexible;
            v.flexible = false;
            v.expr->value = ~v.expr->value;
            v.expr->type.bits = 64;
            return v;
    }
    return v;
}

// The constant takes the signedness of what it meets; false when its value does not exist there.
bool Checker::adapt(Value& constant, bool to_signed) {
    if (constant.expr->kind != ExprKind::int_const) {
        if (!adapt_inside(*constant.expr, to_signed)) return false;
        constant.flexible = false;
        return true;
    }
    const Wide v = exact(constant);
    if (to_signed ? v > (kHighest >> 1) : v < 0) {
        error(out_of_range, constant.expr->span,
              "the constant " + spelled(v) + " does not exist among the " + (to_signed ? "signed" : "unsigned") +
                  " integers it meets",
              to_signed ? "convert the other side with `as u64`" : "convert the other side with `as i64`");
        return false;
    }
    constant.expr->type.is_signed = to_signed;
    constant.flexible = false;
    return true;
}

// A choice between constants is as flexible as they are.
bool Checker::adapt_inside(checked::Expr& e, bool to_signed) {
    if (e.kind == ExprKind::cond || e.kind == ExprKind::let_in) {
        for (std::size_t i = e.kind == ExprKind::let_in ? e.kids.size() - 1 : 1; i < e.kids.size(); i++)
            if (!adapt_inside(*e.kids[i], to_signed)) return false;
        e.type.is_signed = to_signed;
        return true;
    }
    Value v = make(e.kind, e.type, e.span);
    v.expr->value = e.value;
    if (!adapt(v, to_signed)) return false;
    e.type.is_signed = to_signed;
    return true;
}

void Checker::settle(Value& v) {
    if (!v || !v.flexible) return;
    v.flexible = false;
}

bool Checker::fits(const Value& constant, const checked::Type& type, Span span, const std::string& what) {
    const Wide v = exact(constant);
    const Wide span_of = static_cast<Wide>(1) << (type.is_signed ? type.bits - 1 : type.bits);
    const Wide low = type.is_signed ? -span_of : 0, high = span_of - 1;
    if (v >= low && v <= high) return true;
    error(out_of_range, span, spelled(v) + " does not fit " + what + ", which is " + describe(type),
          "the values of " + describe(type) + " are " + spelled(low) + " to " + spelled(high));
    return false;
}

Value Checker::constant(std::uint32_t index, Span use) {
    Constant& c = constants_[index];
    if (c.progress == Progress::done) {
        reads_defines(c.defines);
        return clone(c.value);
    }
    if (c.progress == Progress::busy) {
        error(constant_cycle, use, "`" + c.name->text + "` is defined by itself",
              "give it a value that does not depend on it", {{c.name->span, "it is declared here"}});
        return {};
    }
    if (too_deep(levels_, "`" + c.name->text + "`", use, c.name->span,
                 "declare each constant below those that it names, or write the value of one on the way"))
        return {};
    c.progress = Progress::busy;
    const std::vector<std::string_view> before = std::exchange(defines_read_, {});
    Value v = c.written ? constant_expr(*c.written, c.scope) : Value{};
    c.defines = std::exchange(defines_read_, before);
    reads_defines(c.defines);
    c.value = std::move(v);
    c.progress = Progress::done;
    return clone(c.value);
}

Value Checker::constant_expr(const ast::Expr& e, Instance* scope) {
    constant_locals_.clear();
    EnvScope there(*this,
                   Env{.scope = scope, .site = Site::constant, .locals = &constant_locals_, .base = bindings_.size()});
    Value v = value(e);
    if (v && !is_constant(v)) {
        error(not_constant, e.span, "this is not a constant",
              "use literals, `const` and `param` names, and functions of them");
        return {};
    }
    return v;
}

namespace {

const char* unit_word(ast::Unit unit) {
    return unit == ast::Unit::time ? "a time" : unit == ast::Unit::bytes ? "a size" : "a plain number";
}

}  // namespace

std::optional<std::uint64_t> Checker::constant_uint(const ast::Expr& e, Instance* scope, const std::string& what,
                                                    std::uint64_t low, std::uint64_t high, Code code, ast::Unit unit) {
    return in_range(constant_expr(e, scope), e.span, what, low, high, code, unit);
}

std::optional<std::uint64_t> Checker::here_uint(const ast::Expr& e, const std::string& what, std::uint64_t low,
                                                std::uint64_t high, Code code, ast::Unit unit) {
    Value v = value(e);
    if (v && !is_constant(v)) {
        error(not_constant, e.span, what + " must be a constant",
              "use literals, `const` and `param` names, and functions of them");
        return std::nullopt;
    }
    return in_range(std::move(v), e.span, what, low, high, code, unit);
}

std::optional<std::uint64_t> Checker::in_range(Value v, Span span, const std::string& what, std::uint64_t low,
                                               std::uint64_t high, Code code, ast::Unit unit) {
    if (!v) return std::nullopt;
    if (v.expr->type.kind != TypeKind::integer) {
        wrong(v, span, "an integer", what);
        return std::nullopt;
    }
    if (unit == ast::Unit::time && v.unit == ast::Unit::none) {
        error(unit_wanted, span, what + " is a time, and this number has no unit",
              "add one of ns, us, ms, s, m, h: `150us`");
        return std::nullopt;
    }
    if (v.unit != ast::Unit::none && v.unit != unit) {
        error(unit_mismatch, span, what + " is " + unit_word(unit) + ", and this is " + unit_word(v.unit),
              unit == ast::Unit::time    ? "give a time such as `150us`"
              : unit == ast::Unit::bytes ? "give a size such as `4KiB`"
                                         : "leave the unit out");
        return std::nullopt;
    }
    const Wide n = exact(v);
    if (n >= static_cast<Wide>(low) && n <= static_cast<Wide>(high)) return static_cast<std::uint64_t>(n);
    const auto said = [&](Wide value) { return unit == ast::Unit::time ? spelled_time(value) : spelled(value); };
    const std::string range = said(static_cast<Wide>(low)) + " to " + said(static_cast<Wide>(high));
    error(code, span, what + " is " + said(n) + ", outside of " + range, "give a value from " + range);
    return std::nullopt;
}

// The value of -D NAME=…, when it is one that a constant can have.
std::optional<Value> Checker::define_value(const Define& define) {
    if (const auto* truth = std::get_if<bool>(&define.value)) return bool_constant(*truth, {});
    if (const auto* text = std::get_if<std::string>(&define.value)) return bytes_constant(*text, {});
    const auto* number = std::get_if<ast::IntLit>(&define.value);
    if (!number) return std::nullopt;
    const Wide v = static_cast<Wide>(number->value);
    return exact_constant(define.negative ? -v : v, {}, number->unit);
}

}  // namespace chainio::sema
