// Statements: dispatch, let, var, assignment, and calls.
#include <algorithm>

#include "compiler/ir/visit.h"
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::StmtKind;
using checked::Type;
using checked::TypeKind;

namespace {

// Space in the state of one variable, as the lowering lays it out: 8-byte slots, a length before bytes.
std::uint32_t slot_bytes(const Type& type) { return type.kind == TypeKind::bytes ? 8 + (type.max + 7) / 8 * 8 : 8; }

}  // namespace

std::uint32_t Checker::state_bytes(const checked::Chain& chain) const {
    std::uint32_t total = 0;
    for (const auto& var : chain.state) total += slot_bytes(var.type);
    return total;
}

ir::Line Checker::line_of(std::uint32_t canonical_line) const {
    return {env_.scope ? env_.scope->source : std::uint16_t{0}, canonical_line};
}

checked::Stmt& Checker::add(checked::Block& out, StmtKind kind, const ast::Stmt& n) {
    auto& made = out.emplace_back(std::make_unique<checked::Stmt>());
    made->kind = kind;
    made->span = n.span;
    made->line = line_of(n.canonical_line);
    return *made;
}

bool Checker::block(const ast::Block& n, checked::Block& out) {
    const Level nested(nested_);
    const std::size_t mark = bindings_.size();
    bool ends = false;
    const ast::Stmt* last = nullptr;
    for (const auto& stmt : n.stmts) {
        if (!stmt) continue;
        if (ends && last) {
            const bool direct =
                std::holds_alternative<ast::Goto>(last->node) || std::holds_alternative<ast::Return>(last->node) ||
                std::holds_alternative<ast::Fail>(last->node) || std::holds_alternative<ast::Break>(last->node) ||
                std::holds_alternative<ast::Continue>(last->node);
            if (direct)
                error(statement_after_end, stmt->span, "this is never reached",
                      "remove it, or what ends the block before it", {{last->span, "the block ends here"}});
            else
                warn(unreachable_code, stmt->span, "this is never reached: every way through what comes before ends",
                     "remove it");
            last = nullptr;
        }
        checked::Block scratch;
        const bool stmt_ends = statement(*stmt, ends ? scratch : out);  // what is never reached is checked and left out
        if (stmt_ends && !ends) last = stmt.get();
        ends |= stmt_ends;
    }
    pop_bindings(mark);
    return ends;
}

bool Checker::statement(const ast::Stmt& s, checked::Block& out) {
    return std::visit(ir::Overloaded{
                          [&](const ast::Let& n) { return let_stmt(s, n, out); },
                          [&](const ast::Var& n) { return var_stmt(s, n, out); },
                          [&](const ast::Assign& n) { return assign_stmt(s, n, out); },
                          [&](const ast::If& n) { return if_stmt(s, n, out); },
                          [&](const ast::When& n) { return when_stmt(s, n, out); },
                          [&](const ast::Match& n) { return match_stmt(s, n, out); },
                          [&](const ast::For& n) { return for_stmt(s, n, out); },
                          [&](const ast::Goto& n) { return goto_stmt(s, n, out); },
                          [&](const ast::Return& n) { return return_stmt(s, n, out); },
                          [&](const ast::Emit& n) { return emit_stmt(s, n, out); },
                          [&](const ast::Fail& n) { return fail_stmt(s, n, out); },
                          [&](const ast::PrefetchVia& n) { return via_stmt(s, n, out); },
                          [&](const ast::Prefetch& n) { return prefetch_stmt(s, n, out); },
                          [&](const ast::Mark& n) { return mark_stmt(s, n, out); },
                          [&](const ast::Reply& n) { return reply_stmt(s, n, out); },
                          [&](const ast::Skip& n) { return skip_stmt(s, n, out); },
                          [&](const ast::Break&) {
                              if (env_.loops == 0)
                                  error(outside_loop, s.span, "`break` outside of a loop", "it leaves a `for`");
                              else
                                  add(out, StmtKind::break_, s);
                              return true;
                          },
                          [&](const ast::Continue&) {
                              if (env_.loops == 0)
                                  error(outside_loop, s.span, "`continue` outside of a loop",
                                        "it goes on with the next element of a `for`");
                              else
                                  add(out, StmtKind::continue_, s);
                              return true;
                          },
                          [&](const ast::CallStmt& n) { return call_stmt(s, n, out); },
                      },
                      s.node);
}

// Computed arguments around an optional value become locals of their own, so that what may be absent stands at the top.
checked::ExprPtr Checker::hoist(Value v, checked::Block& out, const ast::Stmt& n) {
    checked::ExprPtr e = std::move(v.expr);
    while (e->type.optional && e->kind == ExprKind::let_in) {
        for (std::size_t i = 0; i < e->locals.size(); i++) {
            checked::Stmt& let = add(out, StmtKind::let, n);
            let.index = e->locals[i];
            let.value = std::move(e->kids[i]);
        }
        checked::ExprPtr inner = std::move(e->kids.back());
        e = std::move(inner);
    }
    return e;
}

bool Checker::let_stmt(const ast::Stmt& s, const ast::Let& n, checked::Block& out) {
    const bool has_else = n.otherwise || n.otherwise_block;
    Value v;
    if (n.value)
        v = has_else ? any(*n.value) : value(*n.value);
    else
        failed_ = true;
    if (v && has_else && !v.expr->type.optional) {
        const bool sequence = is_sequence(v);
        error(else_without_optional, n.value->span, "this value is always there, so `else` never runs",
              sequence ? "end the sequence with an aggregate" : "remove `else …`");
    }
    checked::Block otherwise;
    if (has_else) {
        bool ends = false;
        if (n.otherwise_block) {
            ends = block(*n.otherwise_block, otherwise);
        } else {
            const std::size_t mark = bindings_.size();
            ends = statement(*n.otherwise, otherwise);
            pop_bindings(mark);
        }
        if (!ends) {
            const Span place = n.otherwise ? n.otherwise->span : n.otherwise_block->span;
            error(
                else_falls_through, place, "after this, `" + n.name.text + "` would have no value",
                env_.site == Site::handler
                    ? "end it with `fail`, in a loop also with `break` or `continue`; `when … as NAME { … }` runs only "
                      "if there is a value, and what comes after it runs in any case"
                : env_.site == Site::shadow ? "end it with `fail`, in a loop also with `break` or `continue`"
                                            : "end it with goto, return, fail, break or continue");
        }
    }
    if (!v) {
        bind_error(n.name);
        return false;
    }
    if (v.expr->kind == ExprKind::call_chain) v.expr->closes = only_closes(otherwise);
    settle(v);
    Binding b;
    b.kind = Binding::Kind::value;
    b.name = n.name.text;
    b.span = n.name.span;
    b.unused_code = unused_let;
    b.has_else = has_else;
    if (v.expr->kind == ExprKind::int_const || v.expr->kind == ExprKind::bool_const) {
        b.value = std::move(v);
        bind(std::move(b));
        return false;
    }
    Type type = v.expr->type;
    type.optional = false;
    const std::uint32_t local = new_local(n.name.text, type, false);
    b.value = local_value(local, v, n.name.span);
    checked::ExprPtr e = has_else ? hoist(std::move(v), out, s) : std::move(v.expr);
    checked::Stmt& let = add(out, StmtKind::let, s);
    let.index = local;
    let.value = std::move(e);
    let.otherwise = std::move(otherwise);
    bind(std::move(b));
    return false;
}

// A variable of bytes lives in the state, cleared when the step starts.
void Checker::bytes_var(const ast::Stmt& s, const ast::Var& n, checked::Block& out) {
    auto type = value_type(*n.type, "a variable", true);
    if (!type) return bind_error(n.name);
    Value v = n.value ? value(*n.value) : Value{};
    if (n.value && (!v || !store_as(v, *type, n.value->span, "`" + n.name.text + "`"))) return bind_error(n.name);
    Binding b;
    b.kind = Binding::Kind::value;
    b.name = n.name.text;
    b.span = n.name.span;
    b.unused_code = unused_let;
    if (type->kind != TypeKind::bytes) {
        if (!v) {
            error(var_without_value, n.name.span, "`" + n.name.text + "` has no value",
                  "write `var " + n.name.text + " = 0`");
            return bind_error(n.name);
        }
        const std::uint32_t local = new_local(n.name.text, *type, true);
        b.value = local_value(local, v, n.name.span);
        b.value.expr->type = *type;
        b.local = local;
        checked::Stmt& let = add(out, StmtKind::let, s);
        let.index = local;
        let.value = std::move(v.expr);
        bind(std::move(b));
        return;
    }
    if (!env_.chain || env_.site == Site::shadow || env_.site == Site::handler) {
        error(type_not_here, n.name.span, "a variable of bytes lives in a chain's state, and there is none here",
              "use bytes of the block with `let`");
        return bind_error(n.name);
    }
    checked::Chain& chain = *env_.chain->out;
    const auto index = static_cast<std::uint32_t>(chain.state.size());
    chain.state.push_back({n.name.text, *type, nullptr, true});
    b.state = index;
    b.value = make(ExprKind::state, *type, n.name.span);
    b.value.expr->index = index;
    b.value.place = Place::state;
    if (env_.loops > 0 || v) {
        // A new turn of a loop begins with what the declaration says, as the first does.
        assign_bytes(s, StmtKind::assign_state, index, v ? std::move(v) : bytes_constant("", n.name.span), out);
    }
    bind(std::move(b));
}

bool Checker::var_stmt(const ast::Stmt& s, const ast::Var& n, checked::Block& out) {
    if (n.type) {
        bytes_var(s, n, out);
        return false;
    }
    if (!n.value) {
        error(var_without_value, n.name.span, "`" + n.name.text + "` has no value",
              "write `var " + n.name.text + " = 0`, or `var " + n.name.text + ": bytes(max N)`");
        bind_error(n.name);
        return false;
    }
    Value v = value(*n.value);
    if (v && v.expr->type.kind != TypeKind::integer && v.expr->type.kind != TypeKind::boolean) {
        v = wrong(v, n.value->span, "an integer or a bool", "`var " + n.name.text + "`",
                  v.expr->type.kind == TypeKind::bytes ? "declare its room: `var " + n.name.text + ": bytes(max N)`"
                                                       : "use `let`, which can hold it");
    }
    if (!v) {
        bind_error(n.name);
        return false;
    }
    settle(v);
    Type type = v.expr->type;
    if (type.kind == TypeKind::integer) type.bits = 64;
    const std::uint32_t local = new_local(n.name.text, type, true);
    Binding b;
    b.kind = Binding::Kind::value;
    b.name = n.name.text;
    b.span = n.name.span;
    b.unused_code = unused_let;
    b.value = local_value(local, v, n.name.span);
    b.value.expr->type = type;
    b.local = local;
    checked::Stmt& let = add(out, StmtKind::let, s);
    let.index = local;
    let.value = std::move(v.expr);
    bind(std::move(b));
    return false;
}

Binding* Checker::assignable(const ast::Name& name, Span) {
    if (name.text.empty()) {
        failed_ = true;
        return nullptr;
    }
    Binding* b = lookup(name.text);
    if (!b) {
        failed_ = true;
        std::vector<std::string> names;
        for (std::size_t i = env_.base; i < bindings_.size(); i++)
            if (bindings_[i].local || bindings_[i].state) names.emplace_back(bindings_[i].name);
        if (find(*env_.scope, name.text)) {
            error(assign_immutable, name.span, "`" + name.text + "` is declared for the whole file and does not change",
                  "use a `state` variable, or `var`");
        } else {
            error(assign_unknown, name.span, "there is no variable `" + name.text + "`",
                  suggestion(name.text, names, "declare it: `var " + name.text + " = …`, or in `state`"));
        }
        return nullptr;
    }
    if (b->kind == Binding::Kind::error) {
        failed_ = true;
        return nullptr;
    }
    if (b->local || b->state) return b;
    error(assign_immutable, name.span, "`" + name.text + "` cannot be assigned", "declare it with `var`, or in `state`",
          {{b->span, "it is declared here"}});
    return nullptr;
}

bool Checker::assign_stmt(const ast::Stmt& s, const ast::Assign& n, checked::Block& out) {
    Binding* target = assignable(n.name, s.span);
    Value v = n.value ? value(*n.value) : Value{};
    if (!n.value) failed_ = true;
    target = target ? lookup(n.name.text) : nullptr;  // checking the value may have moved the bindings
    if (!target || !v) return false;
    const Type type = target->value.expr->type;
    if (!store_as(v, type, n.value->span, "`" + n.name.text + "`")) return false;
    if (type.kind == TypeKind::bytes) {
        assign_bytes(s, StmtKind::assign_state, *target->state, std::move(v), out);
        return false;
    }
    checked::Stmt& made = add(out, target->state ? StmtKind::assign_state : StmtKind::assign, s);
    made.index = target->state ? *target->state : *target->local;
    made.value = std::move(v.expr);
    return false;
}

void Checker::assign_bytes(const ast::Stmt& s, StmtKind kind, std::uint32_t state, Value v, checked::Block& out) {
    checked::Stmt& made = add(out, kind, s);
    made.index = state;
    made.value = std::move(v.expr);
}

// An integer as bytes of its type's width, as `emit` writes it: they lie in a variable of the chain that has no name.
Value Checker::number_bytes(const ast::Stmt& s, Value v, checked::Block& out) {
    settle(v);
    checked::Chain& chain = *env_.chain->out;
    const auto nameless = [](const checked::StateVar& var) { return var.name.empty(); };
    auto at = std::ranges::find_if(chain.state, nameless);
    const auto index = static_cast<std::uint32_t>(at - chain.state.begin());
    if (at == chain.state.end()) chain.state.push_back({"", {TypeKind::integer, 64, false}, nullptr, false});
    Type type{TypeKind::bytes};
    type.max = v.expr->type.bits / 8;
    Value written = make(ExprKind::number_bytes, type, v.expr->span);
    written.expr->index = index;
    written.place = Place::state;
    written.exact = type.max;
    checked::Stmt& made = add(out, StmtKind::assign_state, s);
    made.index = index;
    made.value = std::move(v.expr);
    return written;
}

// `k.set(b)`, `k.append(b)`, `k.append(n)`, `k.truncate(n)`.
bool Checker::variable_method(const ast::Stmt& s, const ast::Call& n, Binding& target, checked::Block& out) {
    const std::uint32_t state = *target.state;
    const Type type = target.value.expr->type;
    const bool truncate = n.callee.text == "truncate", append = n.callee.text == "append";
    if (!arguments(n, 1, 1, std::string(target.name) + "." + n.callee.text + (truncate ? "(n)" : "(bytes)")))
        return false;
    const ast::Expr& given = *n.args[0].value;
    const std::string what = "the argument of `" + n.callee.text + "`";
    Value v = truncate ? count_value(given, "the new length") : append ? value(given) : bytes(given, what);
    if (!v) return false;
    if (append && v.expr->type.kind == TypeKind::integer) {
        v = number_bytes(s, std::move(v), out);
        if (*v.exact > type.max) {
            error(length_mismatch, given.span,
                  "the variable holds at most " + std::to_string(type.max) + " bytes, and this integer has " +
                      std::to_string(*v.exact),
                  "append as many as are meant: `(…) as u" + std::to_string(8 * std::min(type.max, 4U)) + "`");
            return false;
        }
    }
    if (append && v.expr->type.kind != TypeKind::bytes) {
        wrong(v, given.span, "bytes or an integer", what);
        return false;
    }
    if (!truncate && !store_as(v, type, n.args[0].value->span, "`" + n.callee.text + "`")) return false;
    const StmtKind kind = truncate ? StmtKind::truncate_state
                          : append ? StmtKind::append_state
                                   : StmtKind::assign_state;
    assign_bytes(s, kind, state, std::move(v), out);
    return false;
}

bool Checker::call_stmt(const ast::Stmt& s, const ast::CallStmt& n, checked::Block& out) {
    if (!n.call) {
        failed_ = true;
        return false;
    }
    const auto* call = std::get_if<ast::Call>(&n.call->node);
    if (call && call->receiver) {
        const bool changes =
            call->callee.text == "set" || call->callee.text == "append" || call->callee.text == "truncate";
        const auto* name = std::get_if<ast::NameRef>(&call->receiver->node);
        Binding* target = changes && name ? lookup(name->name.text) : nullptr;
        if (target && target->state && target->value.expr->type.kind == TypeKind::bytes) {
            target->used = true;
            return variable_method(s, *call, *target, out);
        }
        if (target && target->kind == Binding::Kind::value) {
            error(assign_immutable, call->receiver->span, "`" + name->name.text + "` is not a variable of bytes",
                  "declare it: `var " + name->name.text + ": bytes(max N)`");
            return false;
        }
        if (call->callee.text == "project") return project_stmt(s, *call, out);
    }
    const std::size_t errors = diags_.error_count();
    Value v = any(*n.call);
    if (v && diags_.error_count() == errors) {
        error(no_effect, s.span, "this has no effect", "keep the value with `let x = …`, or remove it");
    }
    return false;
}

}  // namespace chainio::sema
