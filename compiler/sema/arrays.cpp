// Methods of arrays and sequences: searches, filters and aggregates.
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::Type;
using checked::TypeKind;

Value Checker::array_method(Value receiver, const ast::Expr& e, const ast::Call& n) {
    const std::string& name = n.callee.text;
    if (name == "lower_bound") return search(std::move(receiver), e, n, checked::Search::lower_bound);
    if (name == "upper_bound") return search(std::move(receiver), e, n, checked::Search::upper_bound);
    if (name == "find") return search(std::move(receiver), e, n, checked::Search::find);
    if (name == "filter") return filter(std::move(receiver), e, n);
    if (name == "sum") return aggregate(std::move(receiver), e, n, checked::Aggregate::sum);
    if (name == "count") return aggregate(std::move(receiver), e, n, checked::Aggregate::count);
    if (name == "min") return aggregate(std::move(receiver), e, n, checked::Aggregate::min);
    if (name == "max") return aggregate(std::move(receiver), e, n, checked::Aggregate::max);
    if (name == "project") {
        error(pipeline_misused, n.callee.span, "`project` is a statement: it emits values and has none",
              "write it on its own, in a chain that returns bytes(max N)");
        return {};
    }
    return unknown_method_of(receiver, n);
}

// The value that a lambda's parameter or a loop's variable stands for.
Value Checker::element_of(const Value& array, std::uint32_t local, std::string_view, Span span) {
    Value out = make(ExprKind::local, *array.expr->type.element, span);
    out.expr->index = local;
    out.facts = array.facts;
    if (out.expr->type.kind == TypeKind::bytes) out.place = Place::block;
    return out;
}

Checker::LambdaResult Checker::lambda(const Value& array, const ast::Lambda& n, const std::string&) {
    LambdaResult out;
    if (!n.body) {
        failed_ = true;
        return out;
    }
    const std::uint32_t local = new_local(n.param.text, *array.expr->type.element, false);
    Binding b;
    b.kind = Binding::Kind::value;
    b.name = n.param.text;
    b.span = n.param.span;
    b.value = element_of(array, local, n.param.text, n.param.span);
    const std::size_t mark = bindings_.size();
    bind(std::move(b));
    out.result = value(*n.body);
    pop_bindings(mark);
    if (!out.result) return out;
    out.type = out.result.expr->type;
    out.lambda.local = local;
    out.ok = true;
    return out;
}

// `by R.key`: for elements that are offsets the key of the record there, for elements that are R their own field.
Checker::LambdaResult Checker::key_by_record(const Value& array, const ast::Expr& e) {
    LambdaResult out;
    const auto* access = std::get_if<ast::FieldAccess>(&e.node);
    if (!access) {
        error(bad_argument, e.span, "the key of an element is a field of a record",
              "write `by Record.field`, or `by c => …`");
        return out;
    }
    auto index = record_named(*access->base);
    if (!index) return out;
    const Type element = *array.expr->type.element;
    const std::uint32_t local = new_local("by", element, false);
    Value item = element_of(array, local, "by", e.span);
    if (element.kind == TypeKind::integer) {
        if (element.is_signed) {
            error(mixed_signedness, e.span, "an offset is unsigned, and the elements are signed",
                  "write `by c => (c as u64).as(…)…`");
            return out;
        }
        item = view_at(std::move(item), *index, e.span);
    } else if (element.kind != TypeKind::view || element.record != *index) {
        error(key_mismatch, e.span, "the elements are not views of `" + module_.records[*index].name + "`",
              "write `by c => …`");
        return out;
    }
    if (!item) return out;
    out.result = view_field(std::move(item), access->field, e.span);
    if (!out.result) return out;
    out.type = out.result.expr->type;
    out.lambda.local = local;
    out.ok = true;
    return out;
}

Checker::LambdaResult Checker::key_of(const Value& array, const ast::Arg& arg) {
    if (arg.lambda) return lambda(array, *arg.lambda, "the key");
    return key_by_record(array, *arg.by);
}

Value Checker::search(Value array, const ast::Expr& e, const ast::Call& n, checked::Search kind) {
    if (!counted(n, 1, 1, "a." + n.callee.text + "(key)")) return {};
    const ast::Arg& arg = n.args[0];
    if (!arg.value || arg.is_max) {
        error(bad_argument, n.callee.span, "`" + n.callee.text + "` takes the key to look for",
              "write `a." + n.callee.text + "(key)` or `a." + n.callee.text + "(key by Record.field)`");
        return {};
    }
    if (is_sequence(array) || array.expr->type.one_by_one) {
        error(pipeline_misused, e.span,
              "`" + n.callee.text + "` needs an array, whose elements can be reached in any order",
              array.expr->type.one_by_one ? "loop over the captures, or take one: `[i]`"
                                          : "loop over a sequence with `for`, or end it with an aggregate");
        return {};
    }
    Value key = value(*arg.value);
    const bool has_key = arg.lambda || arg.by;
    LambdaResult by;
    if (has_key) by = key_of(array, arg);
    if (!key || (has_key && !by.ok)) return {};
    Value own;
    if (!has_key) {
        own = make(ExprKind::local, *array.expr->type.element, e.span);
        if (own.expr->type.kind == TypeKind::view) {
            error(key_mismatch, arg.value->span, "the elements are records, and which field is the key is not said",
                  "write `" + n.callee.text + "(key by " + module_.records[own.expr->type.record].name + ".field)`");
            return {};
        }
    }
    Value& item = has_key ? by.result : own;
    const TypeKind key_kind = key.expr->type.kind, item_kind = item.expr->type.kind;
    if (key_kind != item_kind || (key_kind != TypeKind::integer && key_kind != TypeKind::bytes)) {
        error(
            key_mismatch, arg.value->span,
            "the key is " + describe(key.expr->type) + ", and what it is compared with is " + describe(item.expr->type),
            "look for integers by integers, for bytes by bytes");
        return {};
    }
    if (key_kind == TypeKind::integer) {
        settle(item);
        if (!unify(key, item, arg.value->span)) return {};
        settle(key);
    }
    Value out = make(ExprKind::search, {TypeKind::integer}, e.span);
    out.expr->type.optional = kind == checked::Search::find;
    out.expr->index = static_cast<std::uint32_t>(kind);
    out.expr->kids.push_back(std::move(array.expr));
    out.expr->kids.push_back(std::move(key.expr));
    if (has_key) out.expr->body = checked::Lambda{by.lambda.local, std::move(item.expr)};
    return out;
}

Value Checker::as_pipeline(Value array) {
    if (array.expr->kind == ExprKind::pipeline) return array;
    Value out = make(ExprKind::pipeline, array.expr->type, array.expr->span);
    out.facts = array.facts;
    out.expr->value = is_sequence(array) ? array.expr->value : 0;
    out.expr->kids.push_back(std::move(array.expr));
    return out;
}

Value Checker::filter(Value array, const ast::Expr& e, const ast::Call& n) {
    if (!counted(n, 1, 1, "a.filter(x => …)")) return {};
    if (n.args[0].value || !n.args[0].lambda) {
        error(bad_argument, n.callee.span, "`filter` takes a condition on an element",
              "write `a.filter(x => x.field > 0)`");
        return {};
    }
    LambdaResult test = lambda(array, *n.args[0].lambda, "the condition");
    if (!test.ok) return {};
    if (test.type.kind != TypeKind::boolean) {
        error(condition_not_bool, n.args[0].lambda->body->span,
              "the condition of `filter` is a bool, and this is " + describe(test.type), "write a comparison");
        return {};
    }
    test.lambda.body = std::move(test.result.expr);
    Value out = as_pipeline(std::move(array));
    out.expr->span = e.span;
    out.expr->filters.push_back(std::move(test.lambda));
    return out;
}

Value Checker::aggregate(Value array, const ast::Expr& e, const ast::Call& n, checked::Aggregate kind) {
    const bool is_count = kind == checked::Aggregate::count;
    if (!counted(n, 0, is_count ? 0 : 1, is_count ? "a.count()" : "a." + n.callee.text + "(x => …)")) return {};
    if (is_count && !is_sequence(array)) {
        Value out = make(ExprKind::array_length, {TypeKind::integer}, e.span);
        out.expr->kids.push_back(std::move(array.expr));
        return out;
    }
    if (array.expr->type.max > kMaxLoop) {
        error(loop_too_large, e.span,
              "this sequence may hold " + std::to_string(array.expr->type.max) +
                  " elements, and one loop runs at most " + std::to_string(kMaxLoop),
              "bound it with `max N`");
        return {};
    }
    LambdaResult of;
    if (!is_count) {
        if (n.args.size() == 1 && (n.args[0].value || !n.args[0].lambda)) {
            error(bad_argument, n.callee.span, "`" + n.callee.text + "` takes a function of an element",
                  "write `a." + n.callee.text + "(x => x.field)`");
            return {};
        }
        if (n.args.size() == 1) {
            of = lambda(array, *n.args[0].lambda, "the value");
            if (!of.ok) return {};
        } else {
            of.lambda.local = new_local("element", *array.expr->type.element, false);
            of.result = element_of(array, of.lambda.local, "element", e.span);
            of.type = of.result.expr->type;
        }
        if (of.type.kind != TypeKind::integer)
            return wrong(of.result, n.args.empty() ? e.span : n.args[0].lambda->body->span, "an integer",
                         "what `" + n.callee.text + "` works on");
        settle(of.result);
    }
    if (!is_sequence(array) && array.expr->type.element->kind == TypeKind::bytes) {
        error(pipeline_misused, e.span, "captures of a text rule have no aggregates", "loop over them with `for`");
        return {};
    }
    Value out = make(ExprKind::aggregate, {TypeKind::integer}, e.span);
    out.expr->index = static_cast<std::uint32_t>(kind);
    out.expr->type.optional = kind == checked::Aggregate::min || kind == checked::Aggregate::max;
    if (!is_count) {
        out.expr->type.is_signed = of.type.is_signed;
        if (out.expr->type.optional) out.expr->type.bits = of.type.bits;
        out.unit = of.result.unit;
        of.lambda.body = std::move(of.result.expr);
        out.expr->body = std::move(of.lambda);
    }
    out.expr->kids.push_back(is_sequence(array) ? as_pipeline(std::move(array)).expr : std::move(array.expr));
    return out;
}

}  // namespace chainio::sema
