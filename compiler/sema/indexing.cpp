// `a[i]` and `a[lo..hi]`.
#include <algorithm>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::Type;
using checked::TypeKind;

Value Checker::index_access(const ast::Expr& e, const ast::Index& n) {
    if (auto files = files_named(*n.base)) {
        error(wrong_kind, e.span, "a file of a class is not a value",
              "use it as the target of `prefetch`, or as an argument of a chain");
        return {};
    }
    Value base = value(*n.base);
    Value index = count_value(*n.index, "an index");
    if (!base || !index) return {};
    const Type& type = base.expr->type;
    if (type.kind == TypeKind::bytes) {
        Value out = make(ExprKind::byte_at, {TypeKind::integer, 8, false}, e.span);
        out.expr->kids.push_back(std::move(base.expr));
        out.expr->kids.push_back(std::move(index.expr));
        return out;
    }
    if (type.kind != TypeKind::array) {
        error(not_indexable, e.span, describe(type) + " has no elements", "arrays and bytes can be indexed");
        return {};
    }
    if (index.expr->kind == ExprKind::int_const && index.expr->value >= type.max) {
        error(out_of_range, n.index->span,
              "element " + std::to_string(index.expr->value) + " of an array of at most " + std::to_string(type.max),
              "elements count from 0");
        return {};
    }
    Value out = make(ExprKind::element, *type.element, e.span);
    out.facts = base.facts;
    if (type.element->kind == TypeKind::bytes) out.place = Place::block;
    out.expr->kids.push_back(std::move(base.expr));
    out.expr->kids.push_back(std::move(index.expr));
    return out;
}

namespace {

// Casts and views are told apart by their types alone.
bool same_type(const Type& a, const Type& b, bool of_two_imports) {
    return a.kind == b.kind && a.bits == b.bits && a.is_signed == b.is_signed && a.max == b.max &&
           (of_two_imports || a.record == b.record);
}

}  // namespace

bool same(const checked::Expr& a, const checked::Expr& b, bool of_two_imports) {
    if (!same_type(a.type, b.type, of_two_imports)) return false;
    if (a.kind != b.kind || a.value != b.value || a.index != b.index || a.index2 != b.index2 || a.bytes != b.bytes ||
        a.kids.size() != b.kids.size())
        return false;
    if (a.body || b.body || !a.filters.empty() || !b.filters.empty() || a.kind == ExprKind::let_in) return false;
    for (std::size_t i = 0; i < a.kids.size(); i++)
        if (!same(*a.kids[i], *b.kids[i], of_two_imports)) return false;
    return true;
}

namespace {

// N where `high` is `low + N`: a slice of known length.
std::optional<std::uint64_t> distance(const checked::Expr& low, const checked::Expr& high) {
    if (high.kind != ExprKind::binary || static_cast<checked::Binary>(high.index) != checked::Binary::add)
        return std::nullopt;
    if (high.kids[1]->kind != ExprKind::int_const || !same(low, *high.kids[0])) return std::nullopt;
    return high.kids[1]->value;
}

// The lesser of two, as `min` makes it: the locals of both stand around the choice.
bool is_least(const checked::Expr& e) {
    if (e.kind != ExprKind::cond || e.kids[0]->kind != ExprKind::binary) return false;
    const checked::Expr& test = *e.kids[0];
    const auto op = static_cast<checked::Binary>(test.index);
    return (op == checked::Binary::le || op == checked::Binary::lt) && same(*test.kids[0], *e.kids[1]) &&
           same(*test.kids[1], *e.kids[2]);
}

using Named = std::vector<const checked::Expr*>;  // what has locals, and what they stand for

// N where `high` is `min(low + N, …)`: a slice of at most N. Of few within one another, as both sides of each are
// followed.
std::optional<std::uint64_t> longest(const checked::Expr& low, const checked::Expr& high, const Named& named,
                                     unsigned depth) {
    if (const auto exactly = distance(low, high)) return exactly;
    if (depth == 0) return std::nullopt;
    if (high.kind == ExprKind::local) {
        for (const checked::Expr* let : named)
            for (std::size_t i = 0; i < let->locals.size(); i++)
                if (let->locals[i] == high.index) return longest(low, *let->kids[i], named, depth - 1);
        return std::nullopt;
    }
    if (high.kind == ExprKind::let_in) {
        Named more = named;
        more.push_back(&high);
        return longest(low, *high.kids.back(), more, depth - 1);
    }
    if (!is_least(high)) return std::nullopt;
    const auto one = longest(low, *high.kids[1], named, depth - 1),
               other = longest(low, *high.kids[2], named, depth - 1);
    return one && other ? std::min(*one, *other) : one ? one : other;
}

}  // namespace

Value Checker::slice_access(const ast::Expr& e, const ast::Slice& n) {
    if (!n.base) {
        error(bad_argument, e.span, "a range stands on its own only in `for i in range(lo, hi)`",
              "write `range(lo, hi)`");
        return {};
    }
    Value base = value(*n.base);
    Value low = n.low ? count_value(*n.low, "the begin of a slice") : int_constant(0, e.span);
    Value high = n.high ? count_value(*n.high, "the end of a slice") : Value{};
    if (!base || !low || (n.high && !high)) return {};
    const Type type = base.expr->type;
    const bool is_bytes = type.kind == TypeKind::bytes;
    if ((!is_bytes && type.kind != TypeKind::array) || type.one_by_one) {
        error(not_indexable, e.span,
              type.one_by_one ? "repeated captures have no slices" : describe(type) + " has no slices",
              type.one_by_one ? "loop over the captures, or take one: `[i]`" : "arrays and bytes can be sliced");
        return {};
    }
    checked::ExprPtr first;
    if (!high) {
        base = name_local(std::move(base), "slice", &first);
        high = make(is_bytes ? ExprKind::bytes_length : ExprKind::array_length, {TypeKind::integer}, e.span);
        if (is_bytes && base.exact)
            high = int_constant(*base.exact, e.span);
        else
            high.expr->kids.push_back(clone(*base.expr));
    }
    const bool constant = low.expr->kind == ExprKind::int_const && high.expr->kind == ExprKind::int_const;
    if (constant && low.expr->value > high.expr->value) {
        error(out_of_range, e.span, "the slice ends before it begins", "write the lower bound first");
        return {};
    }
    const std::uint64_t most = is_bytes && base.exact ? *base.exact : type.max;
    if (high.expr->kind == ExprKind::int_const && high.expr->value > most) {
        error(out_of_range, e.span,
              std::string("the slice ends at ") + (is_bytes ? "byte " : "element ") + std::to_string(high.expr->value) +
                  (base.exact ? " of " : " of at most ") + std::to_string(most),
              "end it at " + std::to_string(most) + " or before");
        return {};
    }
    Value out = make(is_bytes ? ExprKind::bytes_slice : ExprKind::array_slice, type, e.span);
    out.place = base.place;
    out.facts = base.facts;
    if (constant) {
        const std::uint64_t length = high.expr->value - low.expr->value;
        if (is_bytes) out.exact = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, kMaxBlock));
        out.expr->type.max = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, type.max));
    } else if (auto length = distance(*low.expr, *high.expr)) {
        if (is_bytes) out.exact = static_cast<std::uint32_t>(std::min<std::uint64_t>(*length, kMaxBlock));
        out.expr->type.max = static_cast<std::uint32_t>(std::min<std::uint64_t>(*length, type.max));
    } else if (high.expr->kind == ExprKind::int_const) {
        out.expr->type.max = static_cast<std::uint32_t>(std::min<std::uint64_t>(high.expr->value, type.max));
    } else if (const auto bound = longest(*low.expr, *high.expr, {}, 12)) {
        out.expr->type.max = static_cast<std::uint32_t>(std::min<std::uint64_t>(*bound, type.max));
    }
    Value named = clone(base);
    out.expr->kids.push_back(std::move(base.expr));
    out.expr->kids.push_back(std::move(low.expr));
    out.expr->kids.push_back(std::move(high.expr));
    return wrap(std::move(out), named, std::move(first));
}

}  // namespace chainio::sema
