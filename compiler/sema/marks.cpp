// `mark`: what a shadow chain remembers of a place in the event's file.
#include <algorithm>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::StmtKind;
using checked::TypeKind;

namespace {

bool any_of(const checked::Block& block, bool marks) {
    return std::ranges::any_of(block, [&](const checked::StmtPtr& s) {
        const bool asks = s->kind == StmtKind::prefetch || s->kind == StmtKind::prefetch_via;
        return (asks && ir::is_mark(s->prefetch_kind) == marks) || any_of(s->body, marks) ||
               any_of(s->otherwise, marks);
    });
}

}  // namespace

// Nothing would tell whether it is worth its while.
bool Checker::marks_only(const checked::Block& block) { return any_of(block, true) && !any_of(block, false); }

bool Checker::mark_stmt(const ast::Stmt& s, const ast::Mark& n, checked::Block& out) {
    if (env_.site != Site::shadow)
        error(
            prefetch_outside_shadow, s.span, "`mark` outside of a shadow chain",
            "a call chain keeps what it has seen in `state`; a shadow chain is declared `on read(…)` or `on open(…)`");
    checked::StmtPtr made = n.call ? mark_via(*n.call) : mark_with(n);
    if (!n.target || !mark_place(*n.target)) made = nullptr;
    if (n.at) {
        Value at = offset_value(*n.at, "the place of a mark");
        settle(at);
        if (!at) made = nullptr;
        if (made) made->value = std::move(at.expr);
    }
    return ask(s, std::move(made), out);
}

bool Checker::mark_place(const ast::Expr& target) {
    if (is_file_of_event(target) && event_has_file()) return true;
    if (is_of_wrong_event(target)) return false;
    error(mark_target, target.span, "a mark is of a place in the event's file",
          "write `mark r.file at …`, in a chain `on read(…) as r` or `on open(…) as r`");
    return false;
}

checked::StmtPtr Checker::mark_with(const ast::Mark& n) {
    if (!n.value) return nullptr;
    Value value = integer(*n.value, "a mark");
    settle(value);
    if (!value) return nullptr;
    auto made = std::make_unique<checked::Stmt>();
    made->kind = StmtKind::prefetch;
    made->prefetch_kind = ir::PrefetchKind::mark;
    made->value2 = std::move(value.expr);
    return made;
}

checked::StmtPtr Checker::mark_via(const ast::Expr& call) {
    checked::StmtPtr made = via_call(call, "mark … via");
    if (!made) return nullptr;
    const checked::Chain& chain = module_.chains[made->index];
    made->prefetch_kind = ir::PrefetchKind::mark_via;
    if (chain.returns.kind == TypeKind::integer && !chain.emits) return made;
    error(mark_result, call.span, "a mark is an integer, and `" + chain.name + "` returns none",
          "name a chain that does: `chain owner(db: file pages, page: u32) -> u32`");
    return nullptr;
}

}  // namespace chainio::sema
