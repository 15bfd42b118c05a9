// if, when, match and for.
#include <algorithm>
#include <map>

#include "compiler/ir/dump_stmt.h"
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Binary;
using checked::ExprKind;
using checked::StmtKind;
using checked::Type;
using checked::TypeKind;

void Checker::warn_always(const ast::Expr& condition, const Value& v) {
    if (!v || v.expr->kind != ExprKind::bool_const || !std::holds_alternative<ast::BoolLit>(condition.node)) return;
    warn(condition_constant, condition.span, std::string("this is always ") + (v.expr->value != 0 ? "true" : "false"),
         "remove the statement around what runs, or all of it");
}

bool Checker::if_stmt(const ast::Stmt& s, const ast::If& n, checked::Block& out) {
    Value condition;
    if (n.condition) condition = boolean(*n.condition, "the condition of `if`");
    if (n.condition) warn_always(*n.condition, condition);
    checked::Block yes, no;
    const bool yes_ends = block(n.yes, yes);
    const bool no_ends = n.no && block(*n.no, no);
    if (!condition) {
        failed_ = true;
        return yes_ends && no_ends;
    }
    checked::Stmt& made = add(out, StmtKind::if_, s);
    made.value = std::move(condition.expr);
    made.body = std::move(yes);
    made.otherwise = std::move(no);
    return yes_ends && no_ends;
}

bool Checker::when_stmt(const ast::Stmt& s, const ast::When& n, checked::Block& out) {
    Value condition = n.condition ? any(*n.condition) : Value{};
    const std::size_t mark = bindings_.size();
    std::uint32_t local = 0;
    bool ok = static_cast<bool>(condition);
    if (ok && n.bind) {
        if (!condition.expr->type.optional) {
            error(else_without_optional, n.condition->span, "this value is always there",
                  "name it with `let " + n.bind->text + " = …`");
            ok = false;
        }
    } else if (ok && condition.expr->type.optional) {
        // `when OPTIONAL { … }` without a name: only whether the value is there counts.
    } else if (ok && condition.expr->type.kind != TypeKind::boolean) {
        error(condition_not_bool, n.condition->span,
              "the condition of `when` is a bool, and this is " + describe(condition.expr->type), "write a comparison");
        ok = false;
    }
    const bool binds = ok && condition.expr->type.optional;
    if (ok && !binds) warn_always(*n.condition, condition);
    if (binds) {
        Type type = condition.expr->type;
        type.optional = false;
        local = new_local(n.bind ? n.bind->text : "_", type, false);
    }
    if (n.bind && !ok) bind_error(*n.bind);
    if (n.bind && ok) {
        Binding b;
        b.kind = Binding::Kind::value;
        b.name = n.bind->text;
        b.span = n.bind->span;
        b.unused_code = unused_let;
        b.value = local_value(local, condition, n.bind->span);
        bind(std::move(b));
    }
    checked::Block body;
    block(n.body, body);
    pop_bindings(mark);
    if (!ok) {
        failed_ = true;
        return false;
    }
    checked::ExprPtr e = binds ? hoist(std::move(condition), out, s) : std::move(condition.expr);
    checked::Stmt& made = add(out, StmtKind::when, s);
    made.value = std::move(e);
    made.index = local;
    made.index2 = binds ? 1 : 0;
    made.body = std::move(body);
    return false;
}

struct Checker::Arms {
    std::map<Wide, Span> numbers;
    std::map<std::string, Span> texts;
    const FieldFacts* facts = nullptr;
    bool chosen = false;  // what is matched is one of their choices

    bool has_texts() const { return chosen && facts && !facts->texts.empty(); }
    bool has_numbers() const { return facts && !facts->choices.empty(); }
    bool covers() const {
        if (has_texts()) return texts.size() == facts->texts.size();
        return chosen && has_numbers() && numbers.size() == facts->choices.size();
    }
};

namespace {

// `1 | 2`, in numbers as they are written: in other languages these are alternatives, here it is 3.
bool joins_numbers(const ast::Expr& e) {
    const auto* binary = std::get_if<ast::Binary>(&e.node);
    if (!binary || binary->op != ast::BinaryOp::bit_or) return false;
    const auto is_number = [](const ast::ExprPtr& side) {
        return side && (std::holds_alternative<ast::IntLit>(side->node) || joins_numbers(*side));
    };
    return is_number(binary->left) && is_number(binary->right);
}

}  // namespace

// One pattern of an arm: a constant that no arm before has. Its test is added to `condition`.
bool Checker::pattern(const ast::Expr& e, const Value& subject, Arms& arms, Value& condition) {
    Value v = near_choices(e, arms.facts);
    if (!v || !subject) return false;
    if (v.expr->kind != ExprKind::int_const && v.expr->kind != ExprKind::bool_const &&
        v.expr->kind != ExprKind::bytes_const) {
        error(arm_not_constant, e.span, "the arms of `match` are constants", "use `if` and `else if` for conditions");
        return false;
    }
    if (v.expr->type.kind != subject.expr->type.kind) {
        wrong(v, e.span, describe(subject.expr->type), "an arm of this `match`");
        return false;
    }
    if (joins_numbers(e))
        warn(arm_of_bits, e.span, "this arm is for one value, " + std::to_string(v.expr->value),
             "alternatives stand behind `,`: `1, 2 { … }`; of bits, write the sum");
    const auto is_new = [&](const auto& added) {
        if (added.second) return true;
        error(duplicate_arm, e.span, "this value has an arm already", "remove one of the two",
              {{added.first->second, "the first is here"}});
        return false;
    };
    if (v.expr->type.kind == TypeKind::bytes) {
        if (!is_new(arms.texts.try_emplace(v.expr->bytes, e.span))) return false;
        if (arms.has_texts() && std::ranges::find(arms.facts->texts, v.expr->bytes) == arms.facts->texts.end()) {
            error(arm_not_choice, e.span, "the capture never has this value",
                  suggestion(v.expr->bytes, arms.facts->texts, "its values are the choices of its text rule"));
            return false;
        }
    } else {
        meet(v, subject.expr->type);
        if (v.expr->type.kind == TypeKind::integer && !fits(v, subject.expr->type, e.span, "what is matched"))
            return false;
        const Wide number = exact(v);
        if (!is_new(arms.numbers.try_emplace(number, e.span))) return false;
        if (arms.chosen && arms.has_numbers() &&
            std::ranges::none_of(arms.facts->choices, [&](const auto& choice) { return choice.second == number; })) {
            error(arm_not_choice, e.span, "the field never has this value",
                  "its values are the ones given with `in { … }` in the record");
            return false;
        }
    }
    Value test = compare_values(clone(subject), std::move(v), Binary::eq, e.span, e.span);
    if (!test) return false;
    condition = condition ? join(std::move(condition), std::move(test), Binary::logical_or, e.span) : std::move(test);
    return true;
}

Value Checker::arm_condition(const ast::MatchArm& n, const Value& subject, Arms& arms) {
    Value condition;
    bool ok = true;
    for (const auto& p : n.patterns)
        if (p) ok &= pattern(*p, subject, arms, condition);
    if (!ok) condition = {};
    return condition;
}

void Checker::warn_missing(const ast::Stmt& s, const Arms& arms) {
    if (!arms.has_numbers() && !arms.has_texts()) return;
    std::string missing;
    const auto misses = [&](const std::string& value) { missing += (missing.empty() ? "" : ", ") + value; };
    for (const auto& [word, number] : arms.facts->choices) {
        if (!arms.numbers.contains(number)) misses(std::string(word));
    }
    for (const std::string& text : arms.facts->texts) {
        if (!arms.texts.contains(text)) misses(ir::quoted(text));
    }
    if (!missing.empty())
        return warn(match_misses, s.span, "no arm for " + missing,
                    "add the arms, or `else { }` when nothing is to happen");
    if (arms.numbers.size() > arms.facts->choices.size()) return;  // others have arms, too
    warn(match_misses, s.span, "no arm for what is none of the field's values, as it may be here",
         "add an arm for it, or `else { }` when nothing is to happen");
}

bool Checker::is_nested_too_deep(const ast::Stmt& s, const ast::Match& n) {
    if (nested_ + n.arms.size() <= kMaxNested) return false;
    error(too_many_arms, s.span,
          "the arms of this `match` and what stands around it are more than " + std::to_string(kMaxNested) +
              " levels deep",
          "an arm is a level deeper than the one before it: move the inner part into a step of its own");
    failed_ = true;
    return true;
}

// match becomes a let and a chain of ifs. When the arms cover every value that a field may have, the last needs no
// test.
bool Checker::match_stmt(const ast::Stmt& s, const ast::Match& n, checked::Block& out) {
    Value subject = n.value ? value(*n.value) : Value{};
    if (subject) {
        settle(subject);
        const TypeKind kind = subject.expr->type.kind;
        if (kind != TypeKind::integer && kind != TypeKind::boolean && kind != TypeKind::bytes)
            subject = wrong(subject, n.value->span, "an integer, a bool or bytes", "what is matched");
    }
    if (n.arms.empty())
        error(empty_match, s.span, "this `match` has no arms", "write `match e { 1 { … } else { … } }`");
    if (is_nested_too_deep(s, n)) return true;
    if (n.arms.size() > kMaxArms) {
        error(too_many_arms, s.span, "this `match` has " + std::to_string(n.arms.size()) + " arms",
              "use at most " + std::to_string(kMaxArms) + "; several values may share an arm");
    }
    Arms arms;
    arms.facts = subject ? subject.facts : nullptr;
    arms.chosen = subject && subject.chosen;
    Value named;
    if (subject) {
        checked::ExprPtr first;
        named = name_local(std::move(subject), "match", &first);
        if (first) {
            checked::Stmt& let = add(out, StmtKind::let, s);
            let.index = named.expr->index;
            let.value = std::move(first);
        }
    }
    bool ok = static_cast<bool>(named), ends = true;
    std::vector<std::pair<checked::ExprPtr, checked::Block>> made;
    for (std::size_t i = 0; i < n.arms.size(); i++) {
        const ast::MatchArm& arm = n.arms[i];
        Value condition = arm_condition(arm, named, arms);
        checked::Block body;
        const Level before(nested_, static_cast<std::uint32_t>(i));
        ends &= block(arm.body, body);
        ok &= static_cast<bool>(condition);
        if (condition) made.emplace_back(std::move(condition.expr), std::move(body));
    }
    const bool both = ok && named.expr->type.kind == TypeKind::boolean && arms.numbers.size() == 2;
    const bool covered = both || (ok && arms.covers());
    checked::Block tail;
    const Level before(nested_, static_cast<std::uint32_t>(n.arms.size()));
    if (n.otherwise) ends &= block(*n.otherwise, tail);
    if (n.otherwise && covered) {
        const std::string whose = arms.has_texts() ? "capture" : "field";
        const std::string have = both ? "both values have" : "every value of the " + whose + " has";
        warn(unreachable_code, n.otherwise->span, have + " an arm, so `else` never runs", "remove it");
    }
    if (ok && !n.otherwise && !covered) warn_missing(s, arms);
    if (!ok) {
        failed_ = true;
        return ends && (n.otherwise || covered);
    }
    if (covered && !n.otherwise) {
        tail = std::move(made.back().second);
        made.pop_back();
    }
    for (auto it = made.rbegin(); it != made.rend(); ++it) {
        checked::Block link;
        checked::Stmt& made_if = add(link, StmtKind::if_, s);
        made_if.value = std::move(it->first);
        made_if.body = std::move(it->second);
        made_if.otherwise = std::move(tail);
        tail = std::move(link);
    }
    for (auto& stmt : tail) out.push_back(std::move(stmt));
    return ends && (n.otherwise || covered);
}

constexpr std::string_view kSooner = "a loop runs at most 65536 times: let the range end sooner";

// How often the loop may run: what is written, or what the array can hold.
std::optional<std::uint32_t> Checker::loop_bound(const ast::For& n, std::uint64_t natural, const std::string& what,
                                                 const std::string& enough) {
    if (n.max) {
        auto max = here_uint(*n.max, "the bound of a loop", 1, kMaxLoop, loop_too_large);
        if (!max) return std::nullopt;
        return static_cast<std::uint32_t>(std::min(*max, natural));
    }
    if (natural <= kMaxImplicitLoop) return static_cast<std::uint32_t>(natural);
    error(unbounded_loop, n.range->span, what,
          enough.empty() ? std::string(kSooner)
                         : "say how many are enough: `for " + n.name.text + " in … max " + enough + "`");
    return std::nullopt;
}

bool Checker::loop_body(const ast::For& n, checked::Stmt& made) {
    env_.loops++;
    block(n.body, made.body);
    env_.loops--;
    return false;
}

bool Checker::for_range(const ast::Stmt& s, const ast::For& n, const ast::Call& range, checked::Block& out) {
    Value low, high;
    if (arguments(range, 2, 2, "range(lo, hi)")) {
        low = count_value(*range.args[0].value, "the begin of a range");
        high = count_value(*range.args[1].value, "the end of a range");
    } else {
        failed_ = true;
    }
    std::uint64_t natural = ~0ULL;
    const bool constant =
        low && high && low.expr->kind == ExprKind::int_const && high.expr->kind == ExprKind::int_const;
    if (constant) natural = high.expr->value > low.expr->value ? high.expr->value - low.expr->value : 0;
    std::optional<std::uint32_t> bound;
    if (low && high)
        bound = loop_bound(
            n, natural,
            constant ? "this range has " + std::to_string(natural) + " elements" : "nothing bounds this range",
            !constant             ? "N"
            : natural <= kMaxLoop ? std::to_string(natural)
                                  : "");
    if (bound && constant && *bound < natural)
        warn(range_never_fits, n.max->span,
             "this range has " + std::to_string(natural) + " elements: with more than " + std::to_string(*bound) +
                 " the loop always fails with `malformed`",
             natural > kMaxLoop ? std::string(kSooner)
                                : "give at least " + std::to_string(natural) +
                                      ", or let the range end sooner: `max` cuts nothing off");
    auto made = std::make_unique<checked::Stmt>();
    made->kind = StmtKind::for_;
    made->span = s.span;
    made->line = line_of(s.canonical_line);
    const std::size_t mark = bindings_.size();
    Binding b;
    b.name = n.name.text;
    b.span = n.name.span;
    b.used = true;  // counting without looking at the number is fine
    if (low && high) {
        made->index = new_local(n.name.text, {TypeKind::integer}, false);
        b.kind = Binding::Kind::value;
        b.value = make(ExprKind::local, {TypeKind::integer}, n.name.span);
        b.value.expr->index = made->index;
        b.value.unit = low.unit == high.unit ? low.unit : ast::Unit::none;
    }
    bind(std::move(b));
    loop_body(n, *made);
    pop_bindings(mark);
    if (!low || !high || !bound) {
        failed_ = true;
        return false;
    }
    made->max = *bound;
    made->value = std::move(low.expr);
    made->value2 = std::move(high.expr);
    out.push_back(std::move(made));
    return false;
}

bool Checker::for_stmt(const ast::Stmt& s, const ast::For& n, checked::Block& out) {
    if (!n.range) {
        failed_ = true;
        return false;
    }
    const auto* range = std::get_if<ast::Call>(&n.range->node);
    if (range && !range->receiver && range->callee.text == "range") return for_range(s, n, *range, out);
    Value array = any(*n.range);
    if (array && (array.expr->type.kind != TypeKind::array || array.expr->type.optional)) {
        const bool is_bytes = array.expr->type.kind == TypeKind::bytes;
        array = wrong(array, n.range->span, "an array or a sequence", "what `for` runs over",
                      is_bytes ? "loop over `range(0, b.length)`, or over `b.records(R, max N)`"
                               : "loop over an array, `b.records(R, max N)` or `range(lo, hi)`");
    }
    std::optional<std::uint32_t> bound;
    if (array) {
        const std::uint64_t natural = array.expr->type.max;
        const bool said =
            is_sequence(array) && array.expr->value == 1;  // `records(R, max N)` is a bound that was written
        bound = said && !n.max ? std::optional(static_cast<std::uint32_t>(natural))
                               : loop_bound(n, natural, "this may hold " + std::to_string(natural) + " elements");
        if (!bound) failed_ = true;
    }
    auto made = std::make_unique<checked::Stmt>();
    made->kind = StmtKind::for_;
    made->span = s.span;
    made->line = line_of(s.canonical_line);
    const std::size_t mark = bindings_.size();
    if (array) {
        made->index = new_local(n.name.text, *array.expr->type.element, false);
        Binding b;
        b.kind = Binding::Kind::value;
        b.name = n.name.text;
        b.span = n.name.span;
        b.value = element_of(array, made->index, n.name.text, n.name.span);
        b.unused_code = unused_let;
        bind(std::move(b));
    } else {
        bind_error(n.name);
    }
    loop_body(n, *made);
    pop_bindings(mark);
    if (!array || !bound) return false;
    made->max = *bound;
    made->value = std::move(array.expr);
    out.push_back(std::move(made));
    return false;
}

}  // namespace chainio::sema
