#include "compiler/passes/rewriter.h"

#include <iterator>

namespace chainio::passes {

void Rewriter::run() {
    std::vector<ir::Reg> defs;
    ir::collect_defs(program_.body, defs);
    for (ir::Reg r : defs) assignments_[r]++;
    program_.body = body(std::move(program_.body));
}

ir::Body Rewriter::body(ir::Body&& statements) {
    ir::Body out;
    out.reserve(statements.size());
    for (ir::Stmt& stmt : statements) {
        switch (visit(stmt)) {
            case Verdict::drop: continue;
            case Verdict::replace_by_branch: {
                auto& node = std::get<ir::If>(stmt.node);
                ir::Body chosen = body(std::move(taken_ ? node.yes : node.no));
                out.insert(out.end(), std::make_move_iterator(chosen.begin()), std::make_move_iterator(chosen.end()));
                break;
            }
            case Verdict::keep:
                if (std::holds_alternative<ir::If>(stmt.node)) {
                    branch(stmt, out);
                } else if (std::holds_alternative<ir::Loop>(stmt.node)) {
                    loop(stmt, out);
                } else {
                    values_.execute(stmt);
                    if (auto* check = std::get_if<ir::CheckRange>(&stmt.node)) values_.learn(*check);
                    out.push_back(std::move(stmt));
                }
                break;
        }
        if (!out.empty() && (ir::is_terminator(out.back()) || ir::branches_end_flow(out.back()))) break;
    }
    return out;
}

void Rewriter::branch(ir::Stmt& stmt, ir::Body& out) {
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
    out.push_back(std::move(stmt));
}

void Rewriter::loop(ir::Stmt& stmt, ir::Body& out) {
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
    out.push_back(std::move(stmt));
}

}  // namespace chainio::passes
