#include "compiler/syntax/text.h"
#include "compiler/syntax/yaml_print.h"
#include "compiler/syntax/yaml_text.h"

namespace chainio::syntax {

// A list of statements; one simple statement stands behind the key.
void YamlPrinter::block(const std::string& name, const ast::Block& block) {
    if (block.stmts.empty()) {
        comments(block.closing_comments);
        return key(name, "[]");
    }
    const ast::Stmt& only = *block.stmts.front();
    const std::string line = simple_text(only);
    const bool commented =
        !only.comments.leading.empty() || !only.comments.trailing.empty() || !block.closing_comments.empty();
    if (block.stmts.size() == 1 && !line.empty() && !commented) return key(name, yaml_text(line));
    open(name);
    ++level_;
    for (std::size_t i = 0; i < block.stmts.size(); ++i) {
        // YAML cannot say that a comment belongs to the end of a list: it goes before the last entry.
        const bool last = i + 1 == block.stmts.size();
        stmt(*block.stmts[i], i == 0, last ? block.closing_comments : Strings{});
    }
    --level_;
    close();
}

void YamlPrinter::stmt(const ast::Stmt& stmt, bool first, const Strings& closing) {
    ast::Comments around = stmt.comments;
    around.leading.insert(around.leading.end(), closing.begin(), closing.end());
    entry(around, first);
    const std::string line = simple_text(stmt);
    if (!line.empty()) return text(yaml_text(line), std::exchange(trailing_, ""));
    std::visit([this](const auto& it) { node(it); }, stmt.node);
}

void YamlPrinter::node(const ast::If& node) {
    key("if", yaml_text(text_of(*node.condition)));
    block("then", node.yes);
    const ast::If* last = &node;
    if (node.else_if) {
        open("elif");
        ++level_;
        while (last->no && last->else_if) {
            last = &std::get<ast::If>(last->no->stmts.front()->node);
            entry({}, true);
            key("if", yaml_text(text_of(*last->condition)));
            block("then", last->yes);
        }
        --level_;
        close();
    }
    if (last->no) block("else", *last->no);
}

void YamlPrinter::node(const ast::When& node) {
    key("when", yaml_text(text_of(*node.condition)));
    if (node.bind) key("as", yaml_text(node.bind->text));
    block("do", node.body);
}

void YamlPrinter::node(const ast::Match& node) {
    key("match", yaml_text(text_of(*node.value)));
    open("arms");
    ++level_;
    bool first = true;
    for (const ast::MatchArm& arm : node.arms) {
        entry(arm.comments, first);
        first = false;
        if (arm.patterns.size() == 1) {
            key("case", yaml_text(text_of(*arm.patterns.front())));
        } else {
            open("case");
            ++level_;
            for (const ast::ExprPtr& each : arm.patterns) {
                dash_ = true;
                text(yaml_text(text_of(*each)), "");
            }
            --level_;
            close();
        }
        block("do", arm.body);
    }
    --level_;
    close();
    if (node.otherwise) block("else", *node.otherwise);
}

void YamlPrinter::node(const ast::For& node) {
    key("for", yaml_text(node.name.text));
    key("in", yaml_text(text_of(*node.range)));
    optional("max", node.max);
    block("do", node.body);
}

void YamlPrinter::node(const ast::Let& node) {
    key("let", yaml_text(node.name.text));
    key("value", yaml_text(text_of(*node.value)));
    if (node.otherwise_block) block("else", *node.otherwise_block);
}

}  // namespace chainio::syntax
