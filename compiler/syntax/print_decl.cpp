#include "compiler/syntax/printer.h"
#include "compiler/syntax/text.h"

namespace chainio::syntax {
namespace {

constexpr std::size_t inline_entries = 4;  // a longer list has a line for each entry

}  // namespace

void Printer::item(const ast::Item& item) {
    leading({item.comments.leading, "", false}, true);
    trailing_ = item.comments.trailing;
    std::visit([this](const auto& each) { node(each); }, item.node);
}

void Printer::node(const ast::Import& import) {
    const std::string text = text_of(import);
    if (fits(text) || import.bindings.empty()) return line(text, trailing_);
    open(text.substr(0, text.find(" with {")) + " with", trailing_);
    for (const ast::Binding& each : import.bindings) line(text_of(each));
    close();
}

void Printer::node(const ast::Param& param) {
    line("param " + (param.files ? text_of(*param.files) : text_of(param.constant)), trailing_);
}

void Printer::node(const ast::Const& constant) { line("const " + text_of(constant.binding), trailing_); }

void Printer::node(const ast::App& app) {
    open("app " + app.name.text, trailing_);
    bool first = true;
    for (const ast::AppItem& each : app.items) {
        leading(each.comments, first);
        first = false;
        line(text_of(each), each.comments.trailing);
    }
    comment_lines(app.closing_comments);
    close();
}

void Printer::node(const ast::AppItem& item) { line(text_of(item), trailing_); }

void Printer::node(const ast::Record& record) {
    fields("record " + record.name.text, record.fields, record.closing_comments);
}

void Printer::fields(const std::string& head, const std::vector<ast::Field>& fields, const Strings& closing) {
    bool plain = fields.size() <= inline_entries && (closing.empty() || !keep_);
    std::string text = head + " {";
    for (const ast::Field& each : fields) {
        plain = plain && !commented(each.comments);
        text += (text.ends_with('{') ? " " : "  ") + text_of(each);
    }
    text += " }";
    if (plain && fits(text)) return line(text, trailing_);
    open(head, trailing_);
    bool first = true;
    for (const ast::Field& each : fields) {
        leading(each.comments, first);
        first = false;
        line(text_of(each), each.comments.trailing);
    }
    comment_lines(closing);
    close();
}

void Printer::node(const ast::TextRule& rule) { text_rule("text " + rule.name.text, rule); }

void Printer::text_rule(const std::string& head, const ast::TextRule& rule) {
    std::string text = head + " {";
    for (const ast::TextItem& each : rule.items) text += " " + text_of(each);
    text += " }";
    if (fits(text)) return line(text, trailing_);
    open(head, trailing_);
    for (const ast::TextItem& each : rule.items) line(text_of(each));
    close();
}

void Printer::node(const ast::Fn& fn) {
    std::string head = "fn " + fn.name.text + "(";
    for (std::size_t i = 0; i < fn.params.size(); ++i) head += (i == 0 ? "" : ", ") + fn.params[i].text;
    head += ")";
    if (!fn.braces) return line(head + " = " + text_of(*fn.body), trailing_);
    if (fn.lets.empty()) return line(head + " { " + text_of(*fn.body) + " }", trailing_);
    open(head, trailing_);
    for (const ast::Binding& each : fn.lets) line("let " + text_of(each));
    line(text_of(*fn.body));
    close();
}

void Printer::node(const ast::Chain& chain) {
    mark(chain.canonical_line);
    open(chain_head(chain), trailing_);
    if (!chain.state.empty()) state(chain.state);
    bool first = chain.state.empty();
    for (const ast::Step& each : chain.steps) {
        leading(each.comments, first);
        first = false;
        step(each);
    }
    if (chain.done) done(chain);
    stmts(chain.body.stmts, chain.body.closing_comments);
    close();
}

void Printer::state(const std::vector<ast::StateVar>& vars) {
    bool plain = vars.size() <= inline_entries;
    std::string text = "state {";
    for (const ast::StateVar& each : vars) {
        plain = plain && !commented(each.comments);
        text += (text.ends_with('{') ? " " : "  ") + text_of(each);
    }
    text += " }";
    if (plain && fits(text)) return line(text);
    open("state", "");
    bool first = true;
    for (const ast::StateVar& each : vars) {
        leading(each.comments, first);
        first = false;
        line(text_of(each), each.comments.trailing);
    }
    close();
}

void Printer::step(const ast::Step& step) {
    mark(step.canonical_line);
    open(step_head(step), step.comments.trailing);
    stmts(step.body.stmts, step.body.closing_comments);
    close();
}

void Printer::done(const ast::Chain& chain) {
    leading(chain.done_comments, chain.steps.empty());
    block("done", *chain.done, chain.done_comments.trailing);
}

void Printer::handler(const ast::Handler& handler) {
    mark(handler.canonical_line);
    block(std::string("on ") + ast::event_word(handler.event), handler.body, handler.comments.trailing);
}

void Printer::node(const ast::Service& service) {
    open(service_head(service), trailing_);
    trailing_.clear();
    bool first = true;
    const auto begin = [&](const ast::Comments& comments) {
        leading(comments, first);
        first = false;
        trailing_ = comments.trailing;
    };
    for (const ast::Request& each : service.requests) {
        begin(each.comments);
        using Transport = ast::Request::Transport;
        fields(each.transport == Transport::any   ? "request"
               : each.transport == Transport::udp ? "request udp"
                                                  : "request tcp",
               each.fields, {});
    }
    for (const ast::TextRule& each : service.texts) {
        begin(each.comments);
        text_rule("text " + each.name.text, each);
    }
    if (service.cache) {
        begin(service.cache->comments);
        line(text_of(*service.cache), trailing_);
    }
    for (const ast::Handler& each : service.handlers) {
        begin(each.comments);
        handler(each);
    }
    comment_lines(service.closing_comments);
    close();
}

void Printer::node(const ast::Probe& probe) { line(text_of(probe), trailing_); }

}  // namespace chainio::syntax
