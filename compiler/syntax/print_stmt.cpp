#include "compiler/syntax/printer.h"
#include "compiler/syntax/text.h"

namespace chainio::syntax {

void Printer::open(const std::string& head, const std::string& trailing) {
    line(head + " {", trailing);
    ++level_;
}

void Printer::close(const std::string& tail) {
    --level_;
    line("}" + tail);
}

void Printer::stmts(const std::vector<ast::StmtPtr>& list, const Strings& closing) {
    bool first = true;
    for (const ast::StmtPtr& each : list) {
        stmt(*each, first);
        first = false;
    }
    comment_lines(closing);
}

bool Printer::one_line(const std::string& head, const ast::Block& block, const std::string& trailing) {
    if (keep_ && !block.closing_comments.empty()) return false;
    if (block.stmts.empty()) {
        line(head + " { }", trailing);
        return true;
    }
    const ast::Stmt& only = *block.stmts.front();
    if (block.stmts.size() > 1 || !is_leaf(only) || commented(only.comments)) return false;
    const std::string text = head + " { " + leaf_text(only, false) + " }";
    if (!fits(text)) return false;
    mark(only.canonical_line);
    line(text, trailing);
    return true;
}

void Printer::block(const std::string& head, const ast::Block& block, const std::string& trailing) {
    if (one_line(head, block, trailing)) return;
    open(head, trailing);
    stmts(block.stmts, block.closing_comments);
    close();
}

void Printer::stmt(const ast::Stmt& stmt, bool first) {
    leading(stmt.comments, first);
    mark(stmt.canonical_line);
    std::visit([&](const auto& each) { node(stmt, each); }, stmt.node);
}

void Printer::leaf(const ast::Stmt& stmt) {
    std::string text = leaf_text(stmt, false);
    if (!fits(text)) text = leaf_text(stmt, true);
    line(text, stmt.comments.trailing);
}

void Printer::node(const ast::Stmt& stmt, const ast::Var&) { line(simple_text(stmt), stmt.comments.trailing); }

void Printer::node(const ast::Stmt& stmt, const ast::When& when) {
    const std::string head = "when " + when_condition(when) + (when.bind ? " as " + when.bind->text : "");
    block(head, when.body, stmt.comments.trailing);
}

void Printer::node(const ast::Stmt& stmt, const ast::For& loop) {
    const std::string head =
        "for " + loop.name.text + " in " + text_of(*loop.range) + (loop.max ? " max " + text_of(*loop.max) : "");
    block(head, loop.body, stmt.comments.trailing);
}

void Printer::node(const ast::Stmt& stmt, const ast::Let& let) {
    const std::string head = "let " + let.name.text + " = " + text_of(*let.value);
    if (let.otherwise_block) return block(head + soft_break + "else", *let.otherwise_block, stmt.comments.trailing);
    if (!let.otherwise) return line(head, stmt.comments.trailing);
    mark(let.otherwise->canonical_line);
    std::string text = head + soft_break + "else " + leaf_text(*let.otherwise, false);
    if (!fits(text)) text = head + soft_break + "else " + leaf_text(*let.otherwise, true);
    line(text, stmt.comments.trailing);
}

void Printer::node(const ast::Stmt& stmt, const ast::If& node) {
    const std::string head = "if " + text_of(*node.condition);
    if (!node.no) return block(head, node.yes, stmt.comments.trailing);
    open(head, stmt.comments.trailing);
    stmts(node.yes.stmts, node.yes.closing_comments);
    const ast::If* last = &node;
    while (last->no && last->else_if) {
        const ast::Stmt& inner = *last->no->stmts.front();
        last = &std::get<ast::If>(inner.node);
        --level_;
        mark(inner.canonical_line);
        open("} else if " + text_of(*last->condition), "");
        stmts(last->yes.stmts, last->yes.closing_comments);
    }
    if (last->no) {
        --level_;
        open("} else", "");
        stmts(last->no->stmts, last->no->closing_comments);
    }
    close();
}

void Printer::node(const ast::Stmt& stmt, const ast::Match& node) {
    open("match " + text_of(*node.value), stmt.comments.trailing);
    bool first = true;
    for (const ast::MatchArm& arm : node.arms) {
        leading(arm.comments, first);
        first = false;
        block(list_text(arm.patterns), arm.body, arm.comments.trailing);
    }
    if (node.otherwise) match_else(*node.otherwise);
    close();
}

void Printer::match_else(const ast::Block& otherwise) {
    const bool single = otherwise.stmts.size() == 1 && is_leaf(*otherwise.stmts.front());
    if (!single ||
        (keep_ && (!otherwise.closing_comments.empty() || !otherwise.stmts.front()->comments.leading.empty()))) {
        return block("else", otherwise, "");
    }
    const ast::Stmt& only = *otherwise.stmts.front();
    mark(only.canonical_line);
    std::string text = "else " + leaf_text(only, false);
    if (!fits(text)) text = "else " + leaf_text(only, true);
    line(text, only.comments.trailing);
}

}  // namespace chainio::syntax
