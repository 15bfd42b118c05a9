#include "compiler/syntax/text.h"

namespace chainio::syntax {
namespace {

// A part that could be taken for something else without a comma before it: an operand, an argument list, a statement.
bool needs_comma(const std::string& part) {
    if (part.starts_with('(') || part.starts_with('-')) return true;
    const std::string word = part.substr(0, part.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
    for (const char* begins : {"match", "emit", "reply", "prefetch", "mark", "next", "state", "step", "done", "skip"}) {
        if (word == begins) return true;
    }
    return false;
}

struct LeafText {
    bool reply_commas;

    std::string operator()(const ast::Assign& s) const { return s.name.text + " = " + text_of(*s.value); }
    std::string operator()(const ast::Goto& s) const {
        std::string out =
            (s.ends_step ? "goto " : "next ") + s.step.text + clause("at", s.at) + clause("for", s.length);
        if (s.file) out += gap + "in " + s.file->text;
        return out + clause("tag", s.tag);
    }
    std::string operator()(const ast::Return& s) const { return s.value ? "return " + text_of(*s.value) : "return"; }
    std::string operator()(const ast::Emit& s) const { return "emit " + list_text(s.values); }
    std::string operator()(const ast::Fail& s) const { return "fail " + s.reason.text; }
    std::string operator()(const ast::PrefetchVia& s) const { return "prefetch via " + text_of(*s.call); }
    std::string operator()(const ast::Prefetch& s) const {
        return "prefetch " + text_of(*s.target) + clause("at", s.at) + clause("for", s.length);
    }
    std::string operator()(const ast::Mark& s) const {
        return "mark " + text_of(*s.target) + clause("at", s.at) + clause("with", s.value) + clause("via", s.call);
    }
    std::string operator()(const ast::Reply& s) const {
        std::string out = "reply ";
        for (std::size_t i = 0; i < s.parts.size(); ++i) {
            const std::string part = text_of(*s.parts[i].value);
            if (i > 0) out += reply_commas || needs_comma(part) ? "," + gap : " ";
            out += part + (s.parts[i].format ? ":" + s.parts[i].format->text : "");
        }
        return out;
    }
    std::string operator()(const ast::Skip& s) const { return "skip " + text_of(*s.bytes); }
    std::string operator()(const ast::Break&) const { return "break"; }
    std::string operator()(const ast::Continue&) const { return "continue"; }
    std::string operator()(const ast::CallStmt& s) const { return text_of(*s.call); }
    // Not for every type: a leaf without its overload has to be an error here, and not an empty text.
    template <ast::Compound Node>
    std::string operator()(const Node&) const {
        return {};
    }
};

}  // namespace

std::string leaf_text(const ast::Stmt& stmt, bool reply_commas) {
    return std::visit(LeafText{reply_commas}, stmt.node);
}

std::string simple_text(const ast::Stmt& stmt) {
    if (const auto* var = std::get_if<ast::Var>(&stmt.node)) {
        return "var " + var->name.text + (var->type ? ": " + text_of(*var->type) : "") +
               (var->value ? " = " + text_of(*var->value) : "");
    }
    if (const auto* let = std::get_if<ast::Let>(&stmt.node)) {
        if (let->otherwise_block) return {};
        const std::string head = "let " + let->name.text + " = " + text_of(*let->value);
        return let->otherwise ? head + gap + "else " + leaf_text(*let->otherwise, false) : head;
    }
    return leaf_text(stmt, false);
}

bool is_leaf(const ast::Stmt& stmt) {
    return std::visit([]<typename Node>(const Node&) { return !ast::Compound<Node>; }, stmt.node);
}

}  // namespace chainio::syntax
