#include "compiler/passes/rewriter.h"

#include <iterator>

namespace chainio::passes {

void Rewriter::run() {
    std::vector<ir::Reg> defs;
    ir::collect_defs(program_.body, defs);
    for (ir::Reg r : defs) assignments_[r]++;
    program_.body = body(std::move(program_.body));
}

// Statements stay in their vector and close ranks there, until one of them becomes several; those behind it follow
// these into another vector.
ir::Body Rewriter::body(ir::Body&& statements) {
    ir::Body spilled;
    bool in_place = true;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < statements.size(); i++) {
        ir::Stmt& stmt = statements[i];
        const Verdict verdict = visit(stmt);
        if (verdict == Verdict::drop) continue;
        if (verdict == Verdict::replace_by_branch) {
            auto& node = std::get<ir::If>(stmt.node);
            ir::Body chosen = body(std::move(taken_ ? node.yes : node.no));
            if (chosen.empty()) continue;
            if (in_place) spill(statements, kept, spilled);
            in_place = false;
            spilled.insert(spilled.end(), std::make_move_iterator(chosen.begin()),
                           std::make_move_iterator(chosen.end()));
        } else {
            keep(stmt);
            if (!in_place) {
                spilled.push_back(std::move(stmt));
            } else if (kept++ != i) {
                statements[kept - 1] = std::move(stmt);
            }
        }
        const ir::Stmt& last = in_place ? statements[kept - 1] : spilled.back();
        if (ir::is_terminator(last) || ir::branches_end_flow(last)) break;
    }
    if (!in_place) return spilled;
    statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(kept), statements.end());
    return std::move(statements);
}

void Rewriter::spill(ir::Body& statements, std::size_t kept, ir::Body& to) {
    to.reserve(statements.size());
    to.assign(std::make_move_iterator(statements.begin()),
              std::make_move_iterator(statements.begin() + static_cast<std::ptrdiff_t>(kept)));
}

void Rewriter::keep(ir::Stmt& stmt) {
    if (std::holds_alternative<ir::If>(stmt.node)) return branch(stmt);
    if (std::holds_alternative<ir::Loop>(stmt.node)) return loop(stmt);
    values_.execute(stmt);
    if (auto* check = std::get_if<ir::CheckRange>(&stmt.node)) values_.learn(*check);
}

void Rewriter::branch(ir::Stmt& stmt) {
    auto& node = std::get<ir::If>(stmt.node);
    auto mark = values_.mark();
    enter(stmt, 0);
    node.yes = body(std::move(node.yes));
    leave(stmt, 0);
    auto yes = values_.changes_since(mark);
    values_.rollback(mark);
    bool yes_ends = ir::ends_flow(node.yes);
    enter(stmt, 1);
    node.no = body(std::move(node.no));
    leave(stmt, 1);
    if (!yes_ends) {
        auto no = values_.changes_since(mark);
        values_.rollback(mark);
        if (ir::ends_flow(node.no)) {
            values_.apply(yes);
        } else {
            values_.merge(yes, no);
        }
    }
}

void Rewriter::loop(ir::Stmt& stmt) {
    auto& node = std::get<ir::Loop>(stmt.node);
    std::vector<ir::Reg> written;
    ir::collect_defs(node.body, written);
    auto forget = [&] {
        for (ir::Reg r : written)
            if (values_.defined(r)) values_.define_fresh(r);
    };
    forget();
    auto mark = values_.mark();
    values_.define_fresh(node.counter);
    enter(stmt, 0);
    node.body = body(std::move(node.body));
    leave(stmt, 0);
    values_.rollback(mark);
    forget();
}

}  // namespace chainio::passes
