// goto, next, return, emit, fail: what a step does with the chain.
#include <algorithm>
#include <array>
#include <set>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::StmtKind;
using checked::Type;
using checked::TypeKind;

namespace {

// In the order of enum cio_outcome; a spec's own words count from 32 on.
constexpr std::array<std::string_view, 13> kOutcomes{
    "ok",        "malformed", "not_found", "overflow", "short_read",   "io_error",   "hop_limit",
    "no_memory", "cancelled", "no_result", "fanout",   "bad_argument", "unsupported"};
constexpr std::uint32_t kFirstUserOutcome = 32;
constexpr std::uint32_t kMaxReasons = 1024;

// The first one, and those that one of them goes to.
template <typename Reads>
std::set<std::size_t> steps_gone_to(const Reads& reads) {
    std::set<std::size_t> found{0};
    for (std::size_t before = 0; before != found.size();) {
        before = found.size();
        for (const auto& read : reads)
            if (found.contains(read.from)) found.insert(read.to);
    }
    return found;
}

}  // namespace

checked::ExprPtr Checker::read_offset(const ast::Expr& e) {
    Value v = offset_value(e, "the offset of a read");
    settle(v);
    return std::move(v.expr);
}

checked::ExprPtr Checker::read_length(const ast::Expr& e) {
    Value v = offset_value(e, "the length of a read");
    if (!v) return nullptr;
    settle(v);
    if (v.expr->kind == ExprKind::int_const) {
        if (v.expr->value == 0) {
            error(zero_length_read, e.span, "a read of no bytes", "read 1 B to 64 KiB");
            return nullptr;
        }
        if (v.expr->value > kMaxBlock) {
            error(read_too_long, e.span, "a read of " + std::to_string(v.expr->value) + " bytes",
                  "read at most 64 KiB at a time; `next` queues several reads");
            return nullptr;
        }
    }
    return std::move(v.expr);
}

// What a step's declaration says, where the step is gone to: over the parameters, the header fields and the state only.
checked::ExprPtr Checker::default_length(const ast::Step& step) {
    Env there = env_;
    there.block = false;
    there.scope = env_.chain->scope;
    there.hidden_from = env_.chain->mark;
    there.hidden_to = bindings_.size();
    EnvScope inside(*this, there);
    return read_length(*step.length);
}

bool Checker::goto_stmt(const ast::Stmt& s, const ast::Goto& n, checked::Block& out) {
    const std::string word = n.ends_step ? "goto" : "next";
    const bool in_step = env_.site == Site::step && env_.chain;
    if (env_.site == Site::shadow)
        error(goto_in_shadow, s.span, "`" + word + "` in a shadow chain, which has no steps",
              "say what the program will want: `prefetch … at … for …`");
    if (env_.site == Site::done)
        error(goto_in_done, s.span, "`" + word + "` in `done`, which runs after the last read",
              "queue the read in a step");
    if (env_.site == Site::handler)
        error(read_in_handler, s.span, "`" + word + "` in a service's handler",
              "call a chain: `let v = lookup(…) else …`");
    checked::ExprPtr at, length, tag;
    if (n.at) at = read_offset(*n.at);
    if (n.length) length = read_length(*n.length);
    if (n.tag) {
        Value v = unsigned_integer(*n.tag, "the tag of a read");
        tag = std::move(v.expr);
    }
    if (!in_step) return n.ends_step;
    if (!n.at)
        error(goto_without_place, s.span, "where the read for step `" + n.step.text + "` begins is not said",
              "write `" + word + " " + n.step.text + " at …`");
    ChainScope& chain = *env_.chain;
    chain.reads_more = true;
    std::optional<std::uint32_t> file;
    if (n.file) file = file_parameter(chain, *n.file);
    if (n.step.text.empty()) {
        failed_ = true;
        return n.ends_step;
    }
    auto it = chain.steps.find(n.step.text);
    if (it == chain.steps.end()) {
        std::vector<std::string> names;
        for (const auto& [name, index] : chain.steps) names.emplace_back(name);
        error(unknown_step, n.step.span, "the chain has no step `" + n.step.text + "`",
              suggestion(n.step.text, names, "declare it: `step " + n.step.text + "(…) { … }`"));
        return n.ends_step;
    }
    const ast::Step& target = chain.ast->steps[it->second];
    if (!n.length) {
        if (!target.length) {
            error(goto_without_length, s.span, "how much to read for step `" + n.step.text + "` is not said",
                  "write `" + word + " " + n.step.text + " at … for …`, or give the step a default `for`",
                  {{target.name.span, "the step has no `for`"}});
            return n.ends_step;
        }
        length = default_length(target);
    }
    if (!n.file) file = read_file(chain, s, it->second);
    if (!at || !length || !file || (n.tag && !tag)) {
        failed_ = true;
        return n.ends_step;
    }
    checked::Stmt& made = add(out, StmtKind::next, s);
    made.ends = n.ends_step;
    made.index = it->second;
    made.index2 = *file;
    made.value = std::move(at);
    made.value2 = std::move(length);
    made.value3 = std::move(tag);
    const std::size_t here = chain.step_ends.size();
    const bool is_assumed = !n.file && (it->second == here || !target.file);
    chain.reads.push_back({here, it->second, *file, is_assumed, s.span});
    return n.ends_step;
}

// Of a `goto` or `next` that names no file.
std::optional<std::uint32_t> Checker::read_file(ChainScope& chain, const ast::Stmt& s, std::uint32_t step) {
    if (chain.ast->steps[step].file || chain.step_files[step]) return chain.step_files[step];
    return env_.file ? env_.file : default_file(chain, s.span);
}

// A step may run over another file than the one that it declares. Whether a read that it queues without `in` is meant
// to go on in the one or in the other cannot be seen, and either would be a surprise.
void Checker::check_files_left_out(const ChainScope& chain) {
    const std::set<std::size_t> running = steps_gone_to(chain.reads);
    for (const ChainScope::Read& read : chain.reads) {
        if (!read.assumed) continue;
        const auto other = std::ranges::find_if(chain.reads, [&](const auto& r) {
            return r.to == read.from && r.file != read.file && running.contains(r.from);
        });
        if (other == chain.reads.end()) continue;
        const auto& params = chain.out->params;
        const std::string declared = "`in " + params[read.file].name + "`",
                          given = "`in " + params[other->file].name + "`";
        const std::string step = "step `" + chain.ast->steps[read.from].name.text + "`";
        error(ambiguous_file, read.span,
              step + " runs over another file than it declares, and which one this reads is not said",
              "write " + declared + ", or " + given + "; a `state` variable can carry which of them it is",
              {{chain.ast->steps[read.from].name.span, "it is declared " + declared},
               {other->span, "and is gone to " + given + " here"}});
    }
}

bool Checker::return_stmt(const ast::Stmt& s, const ast::Return& n, checked::Block& out) {
    Value v = n.value ? value(*n.value) : Value{};
    if (n.value && !v) failed_ = true;
    if (env_.site == Site::shadow || env_.site == Site::handler) {
        const bool shadow = env_.site == Site::shadow;
        error(return_in_shadow, s.span,
              std::string("`return` in ") + (shadow ? "a shadow chain, which has no result" : "a service's handler"),
              shadow ? "say what the program will want with `prefetch`"
                     : "answer with `reply`; the handler ends behind its last statement, or with `fail`");
        return true;
    }
    if (!env_.chain) return true;
    ChainScope& chain = *env_.chain;
    const Type returns = chain.out->returns;
    if (!n.value) {
        chain.returns_nothing = true;
        if (chain.first_return.line == 0) chain.first_bare_return = s.span;
        add(out, StmtKind::return_, s);
        return true;
    }
    chain.returns_value = true;
    if (diags_.reported_at(s.span)) {  // by the front end: its value may be what was to follow it
        chain.bad_returns = true;
        return true;
    }
    if (chain.first_return.line == 0) chain.first_return = s.span;
    if (returns.kind == TypeKind::none) {
        // The type of the result is wrong, and reported; or it may stand in what could not be read.
        const bool told = chain.ast->returns || after_syntax_errors_;
        if (told) failed_ = true;
        if (!chain.bad_returns && !told)
            error(return_value, n.value->span, "the chain has no result",
                  "declare one: `chain " + chain.ast->name.text + "(…) -> u64`");
        chain.bad_returns = true;
        return true;
    }
    if (!store_as(v, returns, n.value->span, "the result")) return true;
    if (returns.kind == TypeKind::bytes && chain.exact_result) {
        return_bytes(s, std::move(v), out);
        return true;
    }
    checked::Stmt& made = add(out, StmtKind::return_, s);
    made.value = std::move(v.expr);
    return true;
}

// A result of exactly N bytes: known at compile time, else checked when the chain runs.
void Checker::return_bytes(const ast::Stmt& s, Value v, checked::Block& out) {
    const std::uint32_t wanted = env_.chain->out->returns.max;
    if (v.exact && *v.exact != wanted) {
        error(length_mismatch, v.expr->span,
              "the result has " + std::to_string(wanted) + " bytes, and these are " + std::to_string(*v.exact),
              "declare bytes(max N), or return " + std::to_string(wanted) + " bytes");
        return;
    }
    if (!v.exact) {
        checked::ExprPtr first;
        const Span span = v.expr->span;
        v = name_local(std::move(v), "result", &first);
        if (first) {
            checked::Stmt& let = add(out, StmtKind::let, s);
            let.index = v.expr->index;
            let.value = std::move(first);
        }
        Value length = make(ExprKind::bytes_length, {TypeKind::integer}, span);
        length.expr->kids.push_back(clone(*v.expr));
        Value test = compare_values(std::move(length), int_constant(wanted, span), checked::Binary::ne, span, span);
        checked::Stmt& guard = add(out, StmtKind::if_, s);
        guard.value = std::move(test.expr);
        checked::Stmt& fail = add(guard.body, StmtKind::fail, s);
        fail.index = 1;
    }
    checked::Stmt& made = add(out, StmtKind::return_, s);
    made.value = std::move(v.expr);
}

bool Checker::emittable(Value& v, Span span) {
    if (!v) return false;
    if (v.expr->type.kind != TypeKind::integer && v.expr->type.kind != TypeKind::bytes) {
        wrong(v, span, "an integer or bytes", "what is emitted",
              v.expr->type.kind == TypeKind::boolean ? "choose a number: `(… ? 1 : 0) as u8`" : "");
        return false;
    }
    settle(v);
    return true;
}

void Checker::emit_values(const std::vector<ast::ExprPtr>& values, checked::Stmt& made) {
    for (const auto& e : values) {
        if (!e) continue;
        Value v = value(*e);
        if (emittable(v, e->span)) made.values.push_back(std::move(v.expr));
    }
}

// Whether `emit` may stand here; what it emits is checked in any case.
bool Checker::may_emit(Span span, const char* word) {
    if (!env_.chain || env_.site == Site::shadow || env_.site == Site::handler) {
        error(emit_outside_call, span, std::string("`") + word + "` outside of a call chain",
              env_.site == Site::handler ? "answer with `reply`" : "only a chain with a result emits");
        return false;
    }
    ChainScope& chain = *env_.chain;
    if (!chain.emits) chain.first_emit = span;
    chain.emits = true;
    if (chain.out->returns.kind == TypeKind::bytes) return true;
    if (!chain.bad_emits)
        error(emit_without_bytes, span,
              std::string("`") + word + "` in a chain whose result is " + describe(chain.out->returns),
              "declare `-> bytes(max N)`");
    chain.bad_emits = true;
    return false;
}

bool Checker::emit_stmt(const ast::Stmt& s, const ast::Emit& n, checked::Block& out) {
    const bool allowed = may_emit(s.span, "emit");
    checked::Block scratch;
    checked::Stmt& made = add(allowed ? out : scratch, StmtKind::emit, s);
    emit_values(n.values, made);
    return false;
}

// `a.filter(…).project(r => r.a, r => r.b)`: a loop that emits.
bool Checker::project_stmt(const ast::Stmt& s, const ast::Call& n, checked::Block& out) {
    const bool allowed = may_emit(s.span, "project");
    Value array = any(*n.receiver);
    if (array && (array.expr->type.kind != TypeKind::array || array.expr->type.optional))
        array = wrong(array, n.receiver->span, "an array or a sequence", "what is projected");
    if (n.args.empty())
        error(argument_count, n.callee.span, "`project` takes what to emit of each element",
              "write `a.project(r => r.field)`");
    if (!array) return false;
    if (array.expr->type.max > kMaxLoop) {
        error(loop_too_large, s.span,
              "this sequence may hold " + std::to_string(array.expr->type.max) +
                  " elements, and one loop runs at most " + std::to_string(kMaxLoop),
              "bound it with `max N`");
    }
    auto made = std::make_unique<checked::Stmt>();
    made->kind = StmtKind::for_;
    made->span = s.span;
    made->line = line_of(s.canonical_line);
    made->max = array.expr->type.max;
    made->index = new_local("element", *array.expr->type.element, false);
    checked::Stmt& emit = add(made->body, StmtKind::emit, s);
    for (const auto& arg : n.args) {
        if (arg.value || !arg.lambda || !arg.lambda->body) {
            error(bad_argument, arg.value ? arg.value->span : n.callee.span, "`project` takes functions of an element",
                  "write `a.project(r => r.field)`");
            continue;
        }
        const std::size_t mark = bindings_.size();
        Binding b;
        b.kind = Binding::Kind::value;
        b.name = arg.lambda->param.text;
        b.span = arg.lambda->param.span;
        b.value = element_of(array, made->index, b.name, b.span);
        bind(std::move(b));
        Value v = value(*arg.lambda->body);
        pop_bindings(mark);
        if (emittable(v, arg.lambda->body->span)) emit.values.push_back(std::move(v.expr));
    }
    made->value = std::move(array.expr);
    if (allowed) out.push_back(std::move(made));
    return false;
}

std::uint32_t Checker::outcome(const ast::Name& reason) {
    auto known = std::ranges::find(kOutcomes, reason.text);
    if (known != kOutcomes.end()) return static_cast<std::uint32_t>(known - kOutcomes.begin());
    auto [it, fresh] = reasons_.try_emplace(reason.text, static_cast<std::uint32_t>(module_.reasons.size()));
    if (fresh) {
        module_.reasons.push_back(reason.text);
        std::vector<std::string> words(kOutcomes.begin() + 1, kOutcomes.end());
        auto near = diag::nearest(reason.text, words);
        if (near)
            warn(reason_spelling, reason.span,
                 "`" + reason.text + "` is an outcome of its own; did you mean `" + *near + "`?",
                 "write `fail " + *near + "`, or choose a word that differs more");
        if (module_.reasons.size() == kMaxReasons + 1)
            error(out_of_range, reason.span, "more than " + std::to_string(kMaxReasons) + " reasons",
                  "use fewer words after `fail`");
    }
    return kFirstUserOutcome + it->second;
}

// `fail close` and nothing else.
bool Checker::only_closes(const checked::Block& block) const {
    const auto close = reasons_.find("close");
    return block.size() == 1 && block[0]->kind == StmtKind::fail && close != reasons_.end() &&
           block[0]->index == kFirstUserOutcome + close->second;
}

bool Checker::fail_stmt(const ast::Stmt& s, const ast::Fail& n, checked::Block& out) {
    if (n.reason.text.empty()) {
        failed_ = true;
        return true;
    }
    if (n.reason.text == "ok")
        error(reserved_name, n.reason.span, "`ok` is the outcome of a chain that did not fail",
              "name a reason such as `not_found`");
    add(out, StmtKind::fail, s).index = outcome(n.reason);
    return true;
}

// How many statements of the two kinds run at least, on any way through.
std::uint64_t Checker::least(const checked::Block& block, StmtKind a, StmtKind b) const {
    const Least found = least_of(block, a, b);
    return std::min(found.through, found.ended);
}

// Of a loop over integers that are known; else 0.
std::uint64_t Checker::turns_of(const checked::Stmt& s) {
    const bool known = s.value2 && s.value->kind == ExprKind::int_const && s.value2->kind == ExprKind::int_const;
    return known && s.value2->value > s.value->value ? s.value2->value - s.value->value : 0;
}

// A step may end amid a block, or go on with another one.
Checker::Least Checker::least_of(const checked::Block& block, StmtKind a, StmtKind b) const {
    constexpr std::uint64_t kMany = 1U << 20;
    Least found{.through = 0};
    for (const auto& s : block) {
        if (s->kind == a || s->kind == b) found.through++;
        Least inside{.through = 0};
        if (s->kind == StmtKind::if_ || s->kind == StmtKind::when) {
            const Least yes = least_of(s->body, a, b), no = least_of(s->otherwise, a, b);
            inside = {.through = std::min(yes.through, no.through), .ended = std::min(yes.ended, no.ended)};
        } else if (s->kind == StmtKind::let && !s->otherwise.empty()) {
            inside.ended = least_of(s->otherwise, a, b).ended;
        } else if (s->kind == StmtKind::return_ || s->kind == StmtKind::fail || s->ends) {
            inside = {.through = Least::kNoWay, .ended = 0};
        } else if (s->kind == StmtKind::for_) {
            const Least turn = least_of(s->body, a, b);
            inside.ended = turn.ended;
            if (!leaves_loop(s->body)) inside.through = std::min(turns_of(*s), kMany) * turn.through;
        }
        if (inside.ended != Least::kNoWay) found.ended = std::min(found.ended, found.through + inside.ended);
        if (inside.through == Least::kNoWay) return {.ended = found.ended};
        found.through = std::min(found.through + inside.through, kMany);
    }
    return found;
}

bool Checker::leaves_loop(const checked::Block& block) const {
    return std::ranges::any_of(block, [&](const auto& s) {
        return s->kind == StmtKind::break_ || s->kind == StmtKind::continue_ || s->kind == StmtKind::return_ ||
               s->kind == StmtKind::fail || leaves_loop(s->body) || leaves_loop(s->otherwise);
    });
}

}  // namespace chainio::sema
