// Names for bytes of a variable. `let` copies no bytes: its name stands for those that the variable has, and has no
// meaning once the variable may have others. As little has an argument of a function in the filters of a sequence that
// the function gives: they run with each turn of a loop over it.
#include <map>
#include <set>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Block;
using checked::Expr;
using checked::ExprKind;
using checked::Stmt;
using checked::StmtKind;
using checked::TypeKind;

namespace {

using Variables = std::set<std::uint32_t>;  // by their numbers in the state, or as locals
constexpr std::uint32_t kLocal = 1U << 31;  // a local that is assigned to, among variables
struct Change {
    std::uint32_t variable = 0;
    Span span;
};
using Changes = std::map<std::uint32_t, Change>;  // by variables, or by the locals that name their bytes

bool is_change(const Stmt& s) {
    return s.kind == StmtKind::assign_state || s.kind == StmtKind::append_state || s.kind == StmtKind::truncate_state ||
           s.kind == StmtKind::assign;
}

std::uint32_t variable_of(const Stmt& change) {
    return change.kind == StmtKind::assign ? change.index | kLocal : change.index;
}

bool is_within(const Span& part, const Span& whole) {
    return part.file == whole.file && std::pair(part.line, part.col) >= std::pair(whole.line, whole.col) &&
           std::pair(part.end_line, part.end_col) <= std::pair(whole.end_line, whole.end_col);
}

// Which variables have changed where the block falls through, after those that had before it; `next` receives those
// that have where it goes on to the loop's next turn. What changes on a way out of the loop is in neither. `inner`: in
// a loop in that one, of which `break` and `continue` are.
Changes changed_by(const Block& block, Changes seen, bool inner, Changes& next) {
    for (const auto& s : block) {
        const bool of_the_loop = s->kind == StmtKind::break_ || s->kind == StmtKind::continue_;
        if (of_the_loop && inner) return seen;
        if (s->kind == StmtKind::continue_) next.merge(Changes(seen));
        if (of_the_loop || s->kind == StmtKind::return_ || s->kind == StmtKind::fail || s->ends) return {};
        if (is_change(*s)) seen.emplace(variable_of(*s), Change{variable_of(*s), s->span});
        Changes body = changed_by(s->body, seen, inner || s->kind == StmtKind::for_, next);
        Changes otherwise = changed_by(s->otherwise, seen, inner, next);
        seen.merge(body);
        seen.merge(otherwise);
    }
    return seen;
}

Changes changed_by_turn(const Block& body) {
    Changes next;
    Changes out = changed_by(body, {}, false, next);
    out.merge(next);
    return out;
}

// Goes through a body as it runs, and keeps what of each name's bytes may have changed by then.
class StaleNames {
  public:
    struct Use {
        std::uint32_t local = 0;  // of an argument: the variable
        Span used;
        std::optional<Span> named;  // absent: it is an argument
        Change change;
    };
    std::vector<Use> of(const Block& body) {
        walk(body);
        return std::move(uses_);
    }

  private:
    struct Name {
        Variables variables;
        Span span;
    };

    bool walk(const Block& block) {  // true: it does not fall through
        for (const auto& s : block)
            if (statement(*s)) return true;
        return false;
    }

    bool statement(const Stmt& s) {
        for (const auto* e : {&s.value, &s.value2, &s.value3}) use(*e, s.span, s.span);
        for (const auto& e : s.values) use(e, s.span, s.span);
        switch (s.kind) {
            case StmtKind::let: return let(s);
            case StmtKind::assign_state:
            case StmtKind::append_state:
            case StmtKind::truncate_state: change({{s.index, {s.index, s.span}}}); return false;
            case StmtKind::if_:
            case StmtKind::when: return either(s.body, s.otherwise);
            case StmtKind::for_: loop(s); return false;
            case StmtKind::break_:
            case StmtKind::continue_: left_.merge(Changes(stale_)); return true;
            case StmtKind::return_:
            case StmtKind::fail: return true;
            default: return s.ends;
        }
    }

    bool let(const Stmt& s) {
        either(s.otherwise, {});
        if (s.value && s.value->type.kind == TypeKind::bytes) names_[s.index] = {variables_of(*s.value), s.span};
        return false;
    }

    bool either(const Block& yes, const Block& no) {
        const Changes before = stale_;
        const bool yes_ends = walk(yes);
        Changes after_yes = std::exchange(stale_, before);
        const bool no_ends = walk(no);
        if (no_ends)
            stale_ = std::move(after_yes);
        else if (!yes_ends)
            stale_.merge(after_yes);
        return yes_ends && no_ends;
    }

    void loop(const Stmt& s) {
        Changes after = stale_;
        Changes outer = std::exchange(left_, {});
        const Changes turn = changed_by_turn(s.body);
        change(turn);
        if (s.value) filters(*s.value, turn);
        if (!walk(s.body)) after.merge(stale_);
        after.merge(left_);
        stale_ = std::move(after);
        left_ = std::move(outer);
    }

    // What the loop runs over is there before it begins, but for the filters, which run again with each turn.
    void filters(const Expr& sequence, const Changes& turn) {
        for (const Expr* e = &sequence; e->kind == ExprKind::pipeline; e = e->kids[0].get()) {
            for (const checked::Lambda& filter : e->filters) {
                use(*filter.body, sequence.span, sequence.span);
                if (filter.given) arguments(*filter.body, sequence.span, turn);
            }
        }
    }

    void arguments(const Expr& e, const Span& place, const Changes& turn) {
        const bool is_variable = e.kind == ExprKind::state || e.kind == ExprKind::local;
        const auto changed = turn.find(e.kind == ExprKind::state ? e.index : e.index | kLocal);
        if (is_variable && changed != turn.end() && given_.insert(changed->first).second)
            uses_.push_back({changed->first, place, std::nullopt, changed->second});
        for (const auto& kid : e.kids) arguments(*kid, place, turn);
        if (e.body) arguments(*e.body->body, place, turn);
        for (const checked::Lambda& filter : e.filters) arguments(*filter.body, place, turn);
    }

    void change(const Changes& changes) {
        for (const auto& [local, name] : names_)
            for (const auto& [variable, change] : changes)
                if (name.variables.contains(variable)) stale_.emplace(local, change);
    }

    // In which variables the bytes of a value lie.
    Variables variables_of(const Expr& e) {
        switch (e.kind) {
            case ExprKind::state: return {e.index};
            case ExprKind::local: return names_.contains(e.index) ? names_[e.index].variables : Variables{};
            case ExprKind::bytes_slice: return variables_of(*e.kids[0]);
            case ExprKind::let_in:
                for (std::size_t i = 0; i < e.locals.size(); i++)
                    if (e.kids[i]->type.kind == TypeKind::bytes)
                        names_[e.locals[i]] = {variables_of(*e.kids[i]), e.span};
                return variables_of(*e.kids.back());
            case ExprKind::cond: {
                Variables out = variables_of(*e.kids[1]);
                out.merge(variables_of(*e.kids[2]));
                return out;
            }
            default: return {};
        }
    }

    void use(const checked::ExprPtr& e, const Span& statement, const Span& around) {
        if (e) use(*e, statement, around);
    }
    // A function's body stands elsewhere: a use in it is told where the function is called.
    void use(const Expr& e, const Span& statement, const Span& around) {
        const Span place = is_within(e.span, statement) ? e.span : around;
        const auto stale = e.kind == ExprKind::local ? stale_.find(e.index) : stale_.end();
        if (stale != stale_.end() && told_.insert(e.index).second)
            uses_.push_back({e.index, place, names_[e.index].span, stale->second});
        for (const auto& kid : e.kids) use(kid, statement, place);
        if (e.body) use(e.body->body, statement, place);
        for (const checked::Lambda& filter : e.filters) use(filter.body, statement, place);
    }

    std::map<std::uint32_t, Name> names_;   // by their locals
    Changes stale_, left_;                  // by locals; `left_`: where the loop was left, or its turn
    std::set<std::uint32_t> told_, given_;  // by locals; by variables
    std::vector<Use> uses_;
};

}  // namespace

void Checker::check_stale_names(const checked::Chain& chain, const checked::Body& body) {
    for (const StaleNames::Use& use : StaleNames().of(body.block)) {
        if (!use.named) {
            const std::uint32_t v = use.change.variable;
            const std::string name = "`" + (v & kLocal ? body.locals[v & ~kLocal].name : chain.state[v].name) + "`";
            error(bytes_changed, use.used,
                  name + " is an argument of the function that gives this sequence, and the loop changes it",
                  "write the sequence here: `.filter(x => …)` takes " + name + " as it is with each turn",
                  {{use.change.span, name + " is changed here"}});
            continue;
        }
        const checked::Local& local = body.locals[use.local];
        const std::string name = "`" + local.name + "`", variable = "`" + chain.state[use.change.variable].name + "`";
        error(bytes_changed, use.used, name + " stands for bytes of " + variable + ", which may have changed since",
              "`let` copies no bytes; to keep them, write `var " + local.name + ": bytes(max " +
                  std::to_string(local.type.max) + ") = …` in its place",
              {{*use.named, name + " is named here"}, {use.change.span, variable + " is changed here"}});
    }
}

}  // namespace chainio::sema
