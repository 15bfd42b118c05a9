// `skip`: bytes behind a request that are no requests.
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Block;
using checked::Expr;
using checked::ExprKind;
using checked::Stmt;
using checked::StmtKind;

namespace {

// Follows whether a chain has been called before a statement, on any way to it.
class CallsBefore {
  public:
    using Skipped = std::function<void(const Stmt&, Span call)>;
    explicit CallsBefore(const Skipped& late) : late_(late) {}

    void block(const Block& statements) {
        for (const auto& stmt : statements) statement(*stmt);
    }

  private:
    void expr(const Expr& e) {
        if (e.kind == ExprKind::call_chain && !call_) call_ = e.span;
        for (const auto& kid : e.kids) expr(*kid);
    }
    void statement(const Stmt& s) {
        for (const auto* each : {&s.value, &s.value2, &s.value3})
            if (*each) expr(**each);
        if (s.kind == StmtKind::skip && call_) late_(s, *call_);
        // What a round of a loop calls is called before the next round.
        if (s.kind == StmtKind::for_ && !call_) call_ = call_in(s.body);
        const std::optional<Span> before = call_;
        block(s.body);
        const std::optional<Span> in_body = std::exchange(call_, before);
        block(s.otherwise);
        if (!call_) call_ = in_body;
    }
    static std::optional<Span> call_in(const Block& statements) {
        const Skipped nothing = [](const Stmt&, Span) {};
        CallsBefore inside(nothing);
        inside.block(statements);
        return inside.call_;
    }

    const Skipped& late_;
    std::optional<Span> call_;
};

}  // namespace

bool Checker::skip_stmt(const ast::Stmt& s, const ast::Skip& n, Block& out) {
    const bool in_datagram = env_.request && env_.request->datagram;
    if (env_.site != Site::handler)
        error(skip_outside_service, s.span, "`skip` outside of a service",
              "a chain reads where it likes: `goto`, `next`");
    else if (in_datagram)
        error(skip_outside_service, s.span, "`skip` in `on datagram`",
              "that only writes what each datagram of the reply begins with; skip in `on request`");
    if (!n.bytes) {
        failed_ = true;
        return false;
    }
    Value v = offset_value(*n.bytes, "the number of bytes to skip");
    if (v && v.expr->kind == ExprKind::int_const && v.expr->value > ir::kMaxSkip) {
        error(out_of_range, n.bytes->span,
              "the number of bytes to skip is " + std::to_string(v.expr->value) + ", above " +
                  std::to_string(ir::kMaxSkip),
              "end the connection instead: `fail close`");
        return false;
    }
    settle(v);
    if (!v || env_.site != Site::handler || in_datagram) return false;
    add(out, StmtKind::skip, s).value = std::move(v.expr);
    return false;
}

// A request that fails at a chain, or that is not run because of an overload, has to have skipped its bytes: what they
// are would be taken for requests.
void Checker::skips_first(const Block& statements) {
    const CallsBefore::Skipped late = [this](const Stmt& s, Span call) {
        error(skip_after_call, s.span, "`skip` behind the call of a chain",
              "skip first: a request whose chain fails has to have skipped as well", {{call, "the call is here"}});
    };
    CallsBefore(late).block(statements);
}

}  // namespace chainio::sema
