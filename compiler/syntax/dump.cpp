#include "compiler/syntax/literals.h"
#include "compiler/syntax/parse.h"
#include "compiler/syntax/text.h"

namespace chainio::syntax {
namespace {

// Expressions with every operator as a list, so that what binds to what can be seen: (+ a (* b c)).
class Dumper {
  public:
    std::string out;

    void file(const ast::File& file) {
        for (const ast::Item& each : file.items) item(each);
    }

  private:
    static constexpr const char* binary_names[] = {"*", "/", "%",  "+", "-",  "<<", ">>", "&",  "^",
                                                   "|", "<", "<=", ">", ">=", "==", "!=", "&&", "||"};

    static std::string expr(const ast::ExprPtr& e) {
        return e ? std::visit([](const auto& node) { return text(node); }, e->node) : "-";
    }
    static std::string list(const std::vector<ast::ExprPtr>& all) {
        std::string out;
        for (const ast::ExprPtr& each : all) out += " " + expr(each);
        return out;
    }
    static std::string text(const ast::IntLit& n) {
        const char* unit = n.unit == ast::Unit::bytes ? ":bytes" : n.unit == ast::Unit::time ? ":ns" : "";
        return std::to_string(n.value) + unit;
    }
    static std::string text(const ast::StringLit& n) { return quote_string(n.value); }
    static std::string text(const ast::BoolLit& n) { return n.value ? "true" : "false"; }
    static std::string text(const ast::BlockLit&) { return "block"; }
    static std::string text(const ast::NameRef& n) { return n.name.text.empty() ? "<unreadable>" : n.name.text; }
    static std::string text(const ast::Call& n) {
        std::string out = "(call " + (n.receiver ? expr(n.receiver) + " ." : "") + n.callee.text;
        for (const ast::Arg& arg : n.args) out += " " + text(arg);
        return out + ")";
    }
    static std::string text(const ast::Arg& arg) {
        std::string out = arg.is_max ? "(max " + expr(arg.value) + ")" : arg.value ? expr(arg.value) : "";
        if (arg.by) out = "(by " + out + " " + expr(arg.by) + ")";
        if (!arg.lambda) return out;
        const std::string lambda = "(=> " + arg.lambda->param.text + " " + expr(arg.lambda->body) + ")";
        return arg.value ? "(by " + out + " " + lambda + ")" : lambda;
    }
    static std::string text(const ast::FieldAccess& n) { return "(. " + expr(n.base) + " " + n.field.text + ")"; }
    static std::string text(const ast::Index& n) { return "(index " + expr(n.base) + " " + expr(n.index) + ")"; }
    static std::string text(const ast::Slice& n) {
        return "(slice " + expr(n.base) + " " + expr(n.low) + " " + expr(n.high) + ")";
    }
    static std::string text(const ast::Unary& n) {
        const char* op = n.op == ast::UnaryOp::negate ? "neg" : n.op == ast::UnaryOp::logical_not ? "!" : "~";
        return std::string("(") + op + " " + expr(n.operand) + ")";
    }
    static std::string text(const ast::Binary& n) {
        return std::string("(") + binary_names[static_cast<std::size_t>(n.op)] + " " + expr(n.left) + " " +
               expr(n.right) + ")";
    }
    static std::string text(const ast::Cond& n) {
        return "(? " + expr(n.condition) + " " + expr(n.yes) + " " + expr(n.no) + ")";
    }
    static std::string text(const ast::InSet& n) { return "(in " + expr(n.value) + list(n.choices) + ")"; }
    static std::string text(const ast::Cast& n) { return "(as " + expr(n.value) + " " + n.type.text + ")"; }

    void line(const std::string& text, Span span = {}) {
        out.append(std::size_t{2} * level_, ' ');
        out += flat(text);
        if (span.line != 0) out += " @" + std::to_string(span.line) + ":" + std::to_string(span.col);
        out += '\n';
    }

    void item(const ast::Item& item) {
        std::visit([&](const auto& node) { decl(node, item.span); }, item.node);
    }
    void decl(const ast::Import& n, Span at) { line(text_of(n), at); }
    void decl(const ast::Param& n, Span at) {
        line("param " + (n.files ? text_of(*n.files) : n.constant.name.text + " = " + expr(n.constant.value)), at);
    }
    void decl(const ast::Const& n, Span at) {
        line("const " + n.binding.name.text + " = " + expr(n.binding.value), at);
    }
    void decl(const ast::App& n, Span at) {
        line("app " + n.name.text, at);
        ++level_;
        for (const ast::AppItem& each : n.items) line(text_of(each), each.span);
        --level_;
    }
    void decl(const ast::AppItem& n, Span at) { line(text_of(n), at); }
    void decl(const ast::Record& n, Span at) {
        line("record " + n.name.text, at);
        fields(n.fields);
    }
    void fields(const std::vector<ast::Field>& all) {
        ++level_;
        for (const ast::Field& each : all) line("field " + text_of(each), each.span);
        --level_;
    }
    void decl(const ast::TextRule& n, Span at) {
        line("text " + n.name.text, at);
        ++level_;
        for (const ast::TextItem& each : n.items) line(text_of(each), each.span);
        --level_;
    }
    void decl(const ast::Fn& n, Span at) {
        std::string head = "fn " + n.name.text;
        for (const ast::Name& each : n.params) head += " " + each.text;
        line(head, at);
        ++level_;
        for (const ast::Binding& each : n.lets) line("let " + each.name.text + " = " + expr(each.value));
        line("value " + expr(n.body));
        --level_;
    }
    void decl(const ast::Chain& n, Span at) {
        line(chain_head(n), at);
        ++level_;
        for (const ast::StateVar& each : n.state) line("state " + text_of(each), each.span);
        for (const ast::Step& each : n.steps) {
            line(step_head(each), each.span);
            block(each.body);
        }
        if (n.done) labelled("done", *n.done);
        for (const ast::StmtPtr& each : n.body.stmts) stmt(*each);
        --level_;
    }
    void decl(const ast::Service& n, Span at) {
        line(service_head(n), at);
        ++level_;
        for (const ast::Request& each : n.requests) {
            using Transport = ast::Request::Transport;
            line(each.transport == Transport::any   ? "request"
                 : each.transport == Transport::udp ? "request udp"
                                                    : "request tcp",
                 each.span);
            fields(each.fields);
        }
        for (const ast::TextRule& each : n.texts) decl(each, {});
        if (n.cache) line(text_of(*n.cache), n.cache->span);
        for (const ast::Handler& each : n.handlers)
            labelled(std::string("on ") + ast::event_word(each.event), each.body);
        --level_;
    }
    void decl(const ast::Probe& n, Span at) { line(text_of(n), at); }

    void labelled(const std::string& label, const ast::Block& body) {
        line(label, body.span);
        block(body);
    }
    void block(const ast::Block& body) {
        ++level_;
        for (const ast::StmtPtr& each : body.stmts) stmt(*each);
        --level_;
    }
    void stmt(const ast::Stmt& stmt) {
        std::visit([&](const auto& node) { write(node, stmt); }, stmt.node);
    }
    void write(const ast::Let& n, const ast::Stmt& s) {
        line("let " + n.name.text + " = " + expr(n.value), s.span);
        ++level_;
        if (n.otherwise) {
            line("else");
            ++level_;
            stmt(*n.otherwise);
            --level_;
        }
        if (n.otherwise_block) labelled("else", *n.otherwise_block);
        --level_;
    }
    void write(const ast::Var& n, const ast::Stmt& s) {
        line("var " + n.name.text + (n.type ? ": " + text_of(*n.type) : "") + (n.value ? " = " + expr(n.value) : ""),
             s.span);
    }
    void write(const ast::If& n, const ast::Stmt& s) {
        line("if " + expr(n.condition), s.span);
        block(n.yes);
        if (n.no) labelled("else", *n.no);
    }
    void write(const ast::When& n, const ast::Stmt& s) {
        line("when " + expr(n.condition) + (n.bind ? " as " + n.bind->text : ""), s.span);
        block(n.body);
    }
    void write(const ast::Match& n, const ast::Stmt& s) {
        line("match " + expr(n.value), s.span);
        ++level_;
        for (const ast::MatchArm& arm : n.arms) {
            line("arm" + list(arm.patterns), arm.span);
            block(arm.body);
        }
        if (n.otherwise) labelled("else", *n.otherwise);
        --level_;
    }
    void write(const ast::For& n, const ast::Stmt& s) {
        line("for " + n.name.text + " in " + expr(n.range) + (n.max ? " max " + expr(n.max) : ""), s.span);
        block(n.body);
    }
    void write(const ast::Assign& n, const ast::Stmt& s) { line("set " + n.name.text + " = " + expr(n.value), s.span); }
    void write(const ast::Return& n, const ast::Stmt& s) {
        line("return" + (n.value ? " " + expr(n.value) : std::string()), s.span);
    }
    void write(const ast::Emit& n, const ast::Stmt& s) { line("emit" + list(n.values), s.span); }
    void write(const ast::CallStmt& n, const ast::Stmt& s) { line(expr(n.call), s.span); }
    void write(const ast::Goto&, const ast::Stmt& s) { leaf(s); }
    void write(const ast::Fail&, const ast::Stmt& s) { leaf(s); }
    void write(const ast::PrefetchVia&, const ast::Stmt& s) { leaf(s); }
    void write(const ast::Prefetch&, const ast::Stmt& s) { leaf(s); }
    void write(const ast::Mark&, const ast::Stmt& s) { leaf(s); }
    void write(const ast::Reply&, const ast::Stmt& s) { leaf(s); }
    void write(const ast::Skip&, const ast::Stmt& s) { leaf(s); }
    void write(const ast::Break&, const ast::Stmt& s) { leaf(s); }
    void write(const ast::Continue&, const ast::Stmt& s) { leaf(s); }
    void leaf(const ast::Stmt& s) { line(leaf_text(s, true), s.span); }

    unsigned level_ = 0;
};

}  // namespace

std::string dump_ast(const ast::File& file) {
    Dumper dumper;
    dumper.file(file);
    return std::move(dumper.out);
}

}  // namespace chainio::syntax
