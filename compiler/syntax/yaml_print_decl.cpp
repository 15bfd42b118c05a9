#include <algorithm>

#include "compiler/syntax/text.h"
#include "compiler/syntax/yaml_print.h"
#include "compiler/syntax/yaml_text.h"

namespace chainio::syntax {

bool YamlPrinter::any_twice(const std::vector<Pair>& list) {
    std::vector<std::string> names;
    for (const Pair& each : list) names.push_back(each.name);
    std::sort(names.begin(), names.end());
    return std::adjacent_find(names.begin(), names.end()) != names.end();
}

// A mapping; a list of mappings with one pair each when a name comes twice.
void YamlPrinter::pairs(const std::string& name, const std::vector<Pair>& list) {
    if (list.empty()) return;
    const bool twice = any_twice(list);
    open(name);
    level_ += twice ? 1 : 0;
    for (const Pair& each : list) {
        dash_ = twice;
        key(each.name, yaml_text(each.value));
    }
    level_ -= twice ? 1 : 0;
    close();
}

void YamlPrinter::node(const ast::Import& import) {
    key("import", yaml_string(import.path));
    if (import.alias) key("as", yaml_text(import.alias->text));
    std::vector<Pair> list;
    for (const ast::Binding& each : import.bindings) list.push_back({each.name.text, text_of(*each.value)});
    pairs("with", list);
}

void YamlPrinter::node(const ast::Param& param) {
    if (param.files) return file_class("param", *param.files);
    key("param", yaml_text(param.constant.name.text));
    key("value", yaml_text(text_of(*param.constant.value)));
}

void YamlPrinter::node(const ast::Const& constant) {
    key("const", yaml_text(constant.binding.name.text));
    key("value", yaml_text(text_of(*constant.binding.value)));
}

void YamlPrinter::node(const ast::App& app) {
    key("app", yaml_text(app.name.text));
    if (app.items.empty()) return comments(app.closing_comments);
    open("items");
    ++level_;
    for (std::size_t i = 0; i < app.items.size(); ++i) {
        ast::Comments around = app.items[i].comments;
        if (i + 1 == app.items.size())
            around.leading.insert(around.leading.end(), app.closing_comments.begin(), app.closing_comments.end());
        entry(around, i == 0);
        node(app.items[i]);
    }
    --level_;
    close();
}

void YamlPrinter::node(const ast::AppItem& item) {
    std::visit([this](const auto& each) { app_node(each); }, item.node);
}

void YamlPrinter::app_node(const ast::MatchExe& exe) { key("match exe", yaml_string(exe.pattern)); }

void YamlPrinter::app_node(const ast::FileClass& files) { file_class("files", files); }

void YamlPrinter::file_class(const std::string& name_key, const ast::FileClass& files) {
    key(name_key, yaml_text(files.name.text));
    key("glob", yaml_string(files.pattern));
    if (files.direct) key("direct", "true");
    if (files.immutable) key("immutable", "true");
    if (files.no_read_ahead) key("no_read_ahead", "true");
    if (files.header) key("header", yaml_text(files.header->text));
    if (files.root) key("root", yaml_string(*files.root));
    optional("index", files.index);
    optional("cache", files.cache_bytes);
    optional("levels", files.cache_levels);
}

void YamlPrinter::app_node(const ast::Socket& socket) {
    key("socket", yaml_text(socket.name.text));
    key(socket.tcp ? "tcp" : "udp", yaml_text(text_of(*socket.port)));
}

void YamlPrinter::app_node(const ast::PriorityClass& priority) {
    key("class", yaml_text(priority.name.text));
    std::vector<Pair> attrs;
    for (const ast::ClassAttr& each : priority.attrs) {
        using Kind = ast::ClassAttr::Kind;
        const std::string name = each.kind == Kind::priority ? "priority"
                                 : each.kind == Kind::weight ? "weight"
                                                             : "slo " + each.percentile.text;
        attrs.push_back({name, text_of(*each.value)});
    }
    // The checker refuses an attribute that is given twice; until then it is kept.
    if (any_twice(attrs)) return pairs("attrs", attrs);
    for (const Pair& each : attrs) key(each.name, yaml_text(each.value));
}

void YamlPrinter::app_node(const ast::Batch& batch) {
    if (!batch.min && !batch.max && !batch.adapt) return key("batch", "{}");
    open("batch");
    optional("min", batch.min);
    optional("max", batch.max);
    if (batch.adapt) key("adapt", "true");
    close();
}

void YamlPrinter::node(const ast::Record& record) {
    key("record", yaml_text(record.name.text));
    fields(record.fields, record.closing_comments);
}

void YamlPrinter::fields(const std::vector<ast::Field>& list, const Strings& closing) {
    if (list.empty()) {
        comments(closing);
        return key("fields", "[]");
    }
    open("fields");
    ++level_;
    for (std::size_t i = 0; i < list.size(); ++i) {
        using Kind = ast::Field::Kind;
        ast::Comments around = list[i].comments;
        if (i + 1 == list.size()) around.leading.insert(around.leading.end(), closing.begin(), closing.end());
        entry(around, i == 0);
        const std::string name = list[i].kind == Kind::skip      ? "_"
                                 : list[i].kind == Kind::derived ? "let " + list[i].name.text
                                                                 : list[i].name.text;
        key(name, yaml_text(body_text(list[i])));
    }
    --level_;
    close();
}

void YamlPrinter::node(const ast::TextRule& rule) {
    key("text", yaml_text(rule.name.text));
    if (rule.items.empty()) return;
    open("parts");
    ++level_;
    for (const ast::TextItem& each : rule.items) {
        using Kind = ast::TextItem::Kind;
        dash_ = true;
        if (each.kind == Kind::literal) {
            text(yaml_string(each.literal), "");
        } else if (each.kind == Kind::capture) {
            key(each.name.text, yaml_text(body_text(each)));
        } else {
            open(each.name.text);
            ++level_;
            for (const std::string& choice : each.choices) {
                dash_ = true;
                text(yaml_string(choice), "");
            }
            --level_;
            close();
        }
    }
    --level_;
    close();
}

void YamlPrinter::node(const ast::Fn& fn) {
    key("fn", yaml_text(fn.name.text));
    if (!fn.params.empty()) {
        std::string list;
        for (const ast::Name& each : fn.params) list += (list.empty() ? "" : ", ") + yaml_text(each.text);
        key("params", "[" + list + "]");
    }
    std::vector<Pair> lets;
    for (const ast::Binding& each : fn.lets) lets.push_back({each.name.text, text_of(*each.value)});
    pairs("let", lets);
    key("value", yaml_text(text_of(*fn.body)));
}

void YamlPrinter::node(const ast::Chain& chain) {
    key("chain", yaml_text(chain.name.text));
    std::vector<Pair> params;
    for (const ast::ChainParam& each : chain.params) {
        params.push_back({each.name.text, each.file ? "file " + text_of(*each.file) : text_of(each.type)});
    }
    pairs("params", params);
    if (chain.event) key("on", yaml_text(text_of(*chain.event)));
    if (chain.priority_class) key("class", yaml_text(chain.priority_class->text));
    if (chain.returns) key("returns", yaml_text(text_of(*chain.returns)));
    optional("hops", chain.hops);
    if (!chain.state.empty()) state(chain.state);
    if (!chain.steps.empty()) {
        open("steps");
        ++level_;
        for (std::size_t i = 0; i < chain.steps.size(); ++i) step(chain.steps[i], i == 0);
        --level_;
        close();
    }
    if (chain.done) {
        begin(chain.done_comments, false);
        trailing_ = chain.done_comments.trailing;
        block("done", *chain.done);
    }
    if (!chain.body.stmts.empty()) {
        block("do", chain.body);
    } else {
        comments(chain.body.closing_comments);
    }
}

void YamlPrinter::state(const std::vector<ast::StateVar>& vars) {
    std::vector<Pair> names;
    for (const ast::StateVar& each : vars) names.push_back({each.name.text, ""});
    const bool twice = any_twice(names);
    open("state");
    level_ += twice ? 1 : 0;
    bool first = true;
    for (const ast::StateVar& each : vars) {
        if (twice) {
            entry(each.comments, first);
        } else {
            begin(each.comments, first);
        }
        first = false;
        trailing_.clear();
        key(each.name.text, yaml_text(body_text(each)), each.comments.trailing);
    }
    level_ -= twice ? 1 : 0;
    close();
}

void YamlPrinter::step(const ast::Step& step, bool first) {
    entry(step.comments, first);
    key("step", yaml_text(step.name.text));
    key("view", yaml_text(step.param.text));
    key("record", yaml_text(step.record ? text_of(*step.record) : "block"));
    optional("from", step.from);
    optional("at", step.at);
    optional("for", step.length);
    if (step.file) key("in", yaml_text(step.file->text));
    block("do", step.body);
}

void YamlPrinter::node(const ast::Service& service) {
    key("service", yaml_text(service.name.text));
    open("on");
    ++level_;
    for (const ast::Endpoint& each : service.endpoints) {
        dash_ = true;
        text(yaml_text(text_of(each)), "");
    }
    --level_;
    close();
    if (service.priority_class) key("class", yaml_text(service.priority_class->text));
    bool first = true;
    if (!service.requests.empty()) open("requests");
    for (const ast::Request& each : service.requests) {
        using Transport = ast::Request::Transport;
        ++level_;
        entry(each.comments, first);
        first = false;
        key("request", each.transport == Transport::any ? "any" : each.transport == Transport::udp ? "udp" : "tcp");
        fields(each.fields, {});
        --level_;
    }
    if (!service.requests.empty()) close();
    first = true;
    if (!service.texts.empty()) open("texts");
    for (const ast::TextRule& each : service.texts) {
        ++level_;
        entry(each.comments, first);
        first = false;
        node(each);
        --level_;
    }
    if (!service.texts.empty()) close();
    if (service.cache) {
        begin(service.cache->comments, false);
        open("cache", service.cache->comments.trailing);
        optional("entries", service.cache->entries);
        optional("ttl", service.cache->ttl);
        optional("key", service.cache->key);
        close();
    }
    first = true;
    if (!service.handlers.empty()) open("handlers");
    for (std::size_t i = 0; i < service.handlers.size(); ++i) {
        const ast::Handler& each = service.handlers[i];
        ast::Comments around = each.comments;
        if (i + 1 == service.handlers.size())
            around.leading.insert(around.leading.end(), service.closing_comments.begin(),
                                  service.closing_comments.end());
        ++level_;
        entry(around, first);
        first = false;
        key("on", ast::event_word(each.event));
        block("do", each.body);
        --level_;
    }
    if (!service.handlers.empty()) close();
}

void YamlPrinter::node(const ast::Probe& probe) {
    key("probe", yaml_text(probe.name.text));
    key("kind", yaml_text(probe.kind.text));
    key("site", yaml_string(probe.site));
    std::vector<Pair> list;
    for (const auto& [name, type] : probe.args) list.push_back({name.text, text_of(type)});
    pairs("args", list);
}

}  // namespace chainio::syntax
