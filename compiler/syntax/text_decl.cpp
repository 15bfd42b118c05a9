#include "compiler/syntax/literals.h"
#include "compiler/syntax/text.h"

namespace chainio::syntax {
namespace {

const std::string wide_gap = std::string(" ") + soft_break;  // two blanks between the entries of a list in braces

std::string braced(const std::vector<std::string>& entries) {
    std::string out = "{";
    for (std::size_t i = 0; i < entries.size(); ++i) out += (i == 0 ? " " : wide_gap) + entries[i];
    return out + " }";
}

std::string bound_text(const ast::Expr& value) {
    const std::string text = text_of(value);
    return text.starts_with('(') || text.starts_with('-') ? "max (" + text + ")" : "max " + text;
}

std::string base_text(const ast::BaseType& base) {
    if (const auto* bytes = std::get_if<ast::BytesType>(&base)) {
        return "bytes(" + (bytes->is_max ? bound_text(*bytes->length) : text_of(*bytes->length)) + ")";
    }
    if (const auto* cstr = std::get_if<ast::CstrType>(&base))
        return "cstr(max " + text_of(*cstr->max) + (cstr->stop ? " by " + text_of(*cstr->stop) : "") + ")";
    if (const auto* bits = std::get_if<ast::BitsType>(&base)) {
        std::vector<std::string> entries;
        for (const ast::BitField& field : bits->fields)
            entries.push_back(field.name.text + ": " + text_of(*field.width));
        return "bits " + bits->base.text + " " + braced(entries);
    }
    return text_of(std::get<ast::NamedType>(base).name);
}

std::string text_of_node(const ast::MatchExe& exe) { return "match exe " + quote_string(exe.pattern); }
std::string text_of_node(const ast::FileClass& files) { return text_of(files); }
std::string text_of_node(const ast::Socket& socket) {
    return "socket " + socket.name.text + " = " + (socket.tcp ? "tcp" : "udp") + " port " + text_of(*socket.port);
}
std::string text_of_node(const ast::PriorityClass& priority) {
    std::vector<std::string> entries;
    for (const ast::ClassAttr& attr : priority.attrs) {
        using Kind = ast::ClassAttr::Kind;
        std::string head = attr.kind == Kind::priority ? "priority "
                           : attr.kind == Kind::weight ? "weight "
                                                       : "slo " + attr.percentile.text + " ";
        entries.push_back(head + text_of(*attr.value));
    }
    return "class " + priority.name.text + " " + braced(entries);
}
std::string text_of_node(const ast::Batch& batch) {
    std::vector<std::string> entries;
    if (batch.min) entries.push_back("min " + text_of(*batch.min));
    if (batch.max) entries.push_back("max " + text_of(*batch.max));
    if (batch.adapt) entries.emplace_back("adapt");
    return "batch " + braced(entries);
}

}  // namespace

std::string text_of(const ast::QualifiedName& name) {
    return name.module.text.empty() ? name.name.text : name.module.text + "." + name.name.text;
}

std::string text_of(const ast::Type& type) {
    std::string out = base_text(type.base);
    if (!type.count) return out;
    return out + "[" + text_of(*type.count) + (type.max ? " max " + text_of(*type.max) : "") + "]";
}

std::string body_text(const ast::Field& field) {
    using Kind = ast::Field::Kind;
    if (field.kind == Kind::derived) return text_of(*field.value);
    if (field.kind == Kind::skip) return "at " + text_of(*field.at);
    std::string out = text_of(field.type) + clause("==", field.equals);
    if (!field.choices.empty()) {
        out += gap + "in {";
        for (std::size_t i = 0; i < field.choices.size(); ++i) {
            out += (i == 0 ? " " : "," + gap) + text_of(*field.choices[i].value) + " " + field.choices[i].name.text;
        }
        out += " }";
    }
    return out + clause("at", field.at) + clause("when", field.when);
}

std::string text_of(const ast::Field& field) {
    using Kind = ast::Field::Kind;
    if (field.kind == Kind::derived) return "let " + field.name.text + " = " + body_text(field);
    return (field.kind == Kind::skip ? "_" : field.name.text) + ": " + body_text(field);
}

std::string body_text(const ast::TextItem& item) {
    std::string out = item.rule.text;
    if (item.max) out += "(max " + text_of(*item.max) + ")";
    if (!item.repeat_low) return out;
    return out + "[" + text_of(*item.repeat_low) + ".." + text_of(*item.repeat_high) + " by " +
           quote_string(item.separator) + "]";
}

std::string text_of(const ast::TextItem& item) {
    using Kind = ast::TextItem::Kind;
    if (item.kind == Kind::literal) return quote_string(item.literal);
    if (item.kind == Kind::capture) return item.name.text + ": " + body_text(item);
    std::string out = item.name.text + ": (";
    for (std::size_t i = 0; i < item.choices.size(); ++i)
        out += (i == 0 ? "" : " |" + gap) + quote_string(item.choices[i]);
    return out + ")";
}

std::string text_of(const ast::Binding& binding) { return binding.name.text + " = " + text_of(*binding.value); }

std::string text_of(const ast::FileClass& files) {
    std::vector<std::string> attrs;
    if (files.direct) attrs.emplace_back("direct");
    if (files.immutable) attrs.emplace_back("immutable");
    if (files.no_read_ahead) attrs.emplace_back("no_read_ahead");
    if (files.header) attrs.push_back("header " + files.header->text);
    if (files.root) attrs.push_back("root " + quote_string(*files.root));
    if (files.index) attrs.push_back("index " + text_of(*files.index));
    if (files.cache_bytes) {
        attrs.push_back("cache " + text_of(*files.cache_bytes) +
                        (files.cache_levels ? " levels " + text_of(*files.cache_levels) : ""));
    }
    const std::string head = "files " + files.name.text + " = " + quote_string(files.pattern);
    return attrs.empty() ? head : head + gap + braced(attrs);
}

std::string text_of(const ast::AppItem& item) {
    return std::visit([](const auto& node) { return text_of_node(node); }, item.node);
}

std::string text_of(const ast::ChainParam& param) {
    return param.name.text + ": " + (param.file ? "file " + text_of(*param.file) : text_of(param.type));
}

std::string text_of(const ast::Event& event) {
    using enum ast::EventKind;
    const char* kind = event.kind == read    ? "read"
                       : event.kind == open  ? "open"
                       : event.kind == ready ? "ready"
                                             : "probe";
    return std::string(kind) + "(" + text_of(event.source) + ") as " + event.bind.text;
}

std::string body_text(const ast::StateVar& var) {
    return text_of(var.type) + (var.value ? " = " + text_of(*var.value) : "");
}

std::string text_of(const ast::StateVar& var) { return var.name.text + ": " + body_text(var); }

std::string text_of(const ast::Endpoint& endpoint) {
    return (endpoint.tcp ? "tcp " : "udp ") + text_of(*endpoint.port) + " via " + endpoint.via.text;
}

std::string text_of(const ast::Cache& cache) {
    return "cache " + text_of(*cache.entries) + " entries ttl " + text_of(*cache.ttl) + clause("key", cache.key);
}

std::string text_of(const ast::Probe& probe) {
    std::string out = "probe " + probe.name.text + " = " + probe.kind.text + " " + quote_string(probe.site) + " (";
    for (std::size_t i = 0; i < probe.args.size(); ++i) {
        out += (i == 0 ? "" : "," + gap) + probe.args[i].first.text + ": " + text_of(probe.args[i].second);
    }
    return out + ")";
}

std::string text_of(const ast::Import& import) {
    std::string out = "import " + quote_string(import.path);
    if (import.alias) out += " as " + import.alias->text;
    if (import.bindings.empty()) return out;
    std::vector<std::string> entries;
    for (const ast::Binding& binding : import.bindings) entries.push_back(text_of(binding));
    return out + " with " + braced(entries);
}

std::string chain_head(const ast::Chain& chain) {
    std::string out = "chain " + chain.name.text;
    if (chain.event) {
        out += " on " + text_of(*chain.event);
    } else {
        out += "(";
        for (std::size_t i = 0; i < chain.params.size(); ++i)
            out += (i == 0 ? "" : "," + gap) + text_of(chain.params[i]);
        out += ")";
    }
    if (chain.priority_class) out += gap + "in class " + chain.priority_class->text;
    if (chain.returns) out += gap + "-> " + text_of(*chain.returns);
    return out + clause("hops", chain.hops);
}

std::string step_param(const ast::Step& step) {
    std::string out = step.param.text + ": " + (step.record ? text_of(*step.record) : "block");
    out += clause("from", step.from) + clause("at", step.at) + clause("for", step.length);
    return step.file ? out + gap + "in " + step.file->text : out;
}

std::string step_head(const ast::Step& step) { return "step " + step.name.text + "(" + step_param(step) + ")"; }

std::string service_head(const ast::Service& service) {
    std::string out = "service " + service.name.text + " on ";
    for (std::size_t i = 0; i < service.endpoints.size(); ++i)
        out += (i == 0 ? "" : "," + gap) + text_of(service.endpoints[i]);
    return service.priority_class ? out + gap + "in class " + service.priority_class->text : out;
}

}  // namespace chainio::syntax
