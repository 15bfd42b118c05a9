#include "compiler/syntax/codes.h"
#include "compiler/syntax/yaml_read.h"

namespace chainio::syntax {

std::vector<ast::Item> YamlReader::items(const Node& root) {
    std::vector<ast::Item> out;
    for (const Node& node : list(&root, "declarations")) {
        ast::Item each;
        each.span = node.span;
        begin(each.comments, node);
        each.blank_before = each.comments.blank_before;
        const bool is_item = item(each, node);
        take_inside(0, each.comments);
        if (is_item) out.push_back(std::move(each));
    }
    return out;
}

bool YamlReader::item(ast::Item& to, const Node& node) {
    const std::string_view kind = construct(node,
                                            {"import", "param", "const", "chain", "service", "app", "record", "text",
                                             "fn", "probe", "files", "socket", "class", "batch", "match exe"},
                                            "a declaration");
    if (kind.empty()) {
        if (node.kind == Node::Kind::map && !node.pairs.empty()) broken_.push_back(node.pairs.front().second.text);
        return false;
    }
    if (kind == "import") {
        to.node = import(node);
    } else if (kind == "param") {
        to.node = param(node);
    } else if (kind == "const") {
        map(node, "a constant", {"const", "value"});
        to.node = ast::Const{{name(need(node, "const")), expr(&need(node, "value"))}};
    } else if (kind == "chain") {
        to.node = chain(node);
    } else if (kind == "service") {
        to.node = service(node);
    } else if (kind == "app") {
        to.node = app(node);
    } else if (kind == "record") {
        map(node, "a record", {"record", "fields"});
        ast::Record out;
        out.name = name(need(node, "record"));
        out.fields = fields(find(node, "fields"));
        to.node = std::move(out);
    } else if (kind == "text") {
        to.node = text_rule(node);
    } else if (kind == "fn") {
        to.node = fn(node);
    } else if (kind == "probe") {
        to.node = probe(node);
    } else {
        ast::AppItem out;
        out.span = node.span;
        app_item(out, node, kind);
        to.node = std::move(out);
    }
    return true;
}

ast::Import YamlReader::import(const Node& node) {
    map(node, "an import", {"import", "as", "with"});
    ast::Import out;
    const Node& path = need(node, "import");
    out.path = string(path);
    out.path_span = path.span;
    out.alias = optional_name(find(node, "as"));
    for (const Pair* each : pairs(find(node, "with"), "a parameter"))
        out.bindings.push_back({name(each->first), expr(&each->second)});
    return out;
}

ast::Param YamlReader::param(const Node& node) {
    ast::Param out;
    if (find(node, "glob") != nullptr) {
        out.files = file_class(node, "param");
        return out;
    }
    map(node, "a parameter", {"param", "value", "glob"});
    out.constant = {name(need(node, "param")), expr(&need(node, "value"))};
    return out;
}

ast::App YamlReader::app(const Node& node) {
    map(node, "an app", {"app", "items"});
    ast::App out;
    out.name = name(need(node, "app"));
    for (const Node& each : list(find(node, "items"), "the app's declarations")) {
        ast::AppItem part;
        part.span = each.span;
        begin(part.comments, each);
        const std::string_view kind =
            construct(each, {"files", "socket", "class", "batch", "match exe"}, "a declaration of an app");
        const std::size_t since = inside_.size();
        const bool is_part = app_item(part, each, kind);
        take_inside(since, part.comments);
        if (is_part) out.items.push_back(std::move(part));
    }
    return out;
}

bool YamlReader::app_item(ast::AppItem& to, const Node& node, std::string_view kind) {
    if (kind.empty()) return false;
    if (kind == "match exe") {
        map(node, "a match", {"match exe"});
        const Node& pattern = need(node, "match exe");
        to.node = ast::MatchExe{string(pattern), pattern.span};
    } else if (kind == "files") {
        to.node = file_class(node, "files");
    } else if (kind == "socket") {
        to.node = socket(node);
    } else if (kind == "class") {
        to.node = priority_class(node);
    } else {
        to.node = batch(node);
    }
    return true;
}

ast::FileClass YamlReader::file_class(const Node& node, std::string_view name_key) {
    map(node, "a file class",
        {name_key, "glob", "direct", "immutable", "no_read_ahead", "header", "root", "index", "cache", "levels"});
    ast::FileClass out;
    out.name = name(need(node, name_key));
    const Node& pattern = need(node, "glob");
    out.pattern = string(pattern);
    out.pattern_span = pattern.span;
    out.direct = flag(find(node, "direct"));
    out.immutable = flag(find(node, "immutable"));
    out.no_read_ahead = flag(find(node, "no_read_ahead"));
    out.header = optional_name(find(node, "header"));
    if (const Node* root = find(node, "root")) out.root = string(*root);
    out.index = expr(find(node, "index"));
    out.cache_bytes = expr(find(node, "cache"));
    if (const Node* levels = find(node, "levels")) {
        if (out.cache_bytes == nullptr) need(node, "cache");
        out.cache_levels = expr(levels);
    }
    return out;
}

ast::Socket YamlReader::socket(const Node& node) {
    map(node, "a socket class", {"socket", "tcp", "udp"});
    one_of(node, "a socket", "tcp", "udp");
    ast::Socket out;
    out.name = name(need(node, "socket"));
    out.tcp = find(node, "udp") == nullptr;
    out.port = expr(&need(node, out.tcp ? "tcp" : "udp"));
    return out;
}

ast::PriorityClass YamlReader::priority_class(const Node& node) {
    map(node, "a priority class", {"class", "priority", "weight", "slo *", "attrs"});
    ast::PriorityClass out;
    out.name = name(need(node, "class"));
    for (const Pair& each : node.pairs) class_attr(out, each);
    for (const Pair* each : pairs(find(node, "attrs"), "an attribute")) class_attr(out, *each);
    return out;
}

void YamlReader::class_attr(ast::PriorityClass& to, const Pair& pair) {
    using Kind = ast::ClassAttr::Kind;
    const auto& [key, value] = pair;
    if (key.text == "priority") to.attrs.push_back({Kind::priority, {}, expr(&value)});
    if (key.text == "weight") to.attrs.push_back({Kind::weight, {}, expr(&value)});
    if (!key.text.starts_with("slo ") || key.places.size() < 5) return;
    Node percentile = key;
    percentile.text.erase(0, 4);
    percentile.places.erase(percentile.places.begin(), percentile.places.begin() + 4);
    to.attrs.push_back({Kind::slo, name(percentile), expr(&value)});
}

ast::Batch YamlReader::batch(const Node& node) {
    ast::Batch out;
    out.span = node.span;
    map(node, "a batch", {"batch"});
    const Node& attrs = need(node, "batch");
    if (attrs.null || !map(attrs, "a batch", {"min", "max", "adapt"})) return out;
    out.min = expr(find(attrs, "min"));
    out.max = expr(find(attrs, "max"));
    out.adapt = flag(find(attrs, "adapt"));
    return out;
}

std::vector<ast::Field> YamlReader::fields(const Node* node) {
    std::vector<ast::Field> out;
    for (const Pair* each : pairs(node, "a field")) {
        ast::Field part;
        begin(part.comments, each->first);
        const std::size_t since = inside_.size();
        field(part, *each);
        take_inside(since, part.comments);
        out.push_back(std::move(part));
    }
    return out;
}

void YamlReader::field(ast::Field& to, const Pair& entry) {
    const auto& [key, value] = entry;
    to.span = key.span;
    if (key.text.starts_with("let ") && key.places.size() > 4) {
        Node derived = key;
        derived.text.erase(0, 4);
        derived.places.erase(derived.places.begin(), derived.places.begin() + 4);
        to.kind = ast::Field::Kind::derived;
        to.name = name(derived);
        to.value = expr(&value);
        return;
    }
    to.name = key.text == "_" ? ast::Name{"_", key.span} : name(key);
    to.type.base = ast::NamedType{{{}, {"", value.span}}};
    if (!scalar(value, "the type of a field")) return;
    fragment(
        value,
        [&](Reader& reader, Builder& builder) {
            if (auto* tree = reader.read_one(&P::fieldBody)) builder.field_body(to, tree);
        },
        to.name.text == "_" ? TextKind::padding : TextKind::value);
}

ast::TextRule YamlReader::text_rule(const Node& node) {
    map(node, "a text rule", {"text", "parts"});
    ast::TextRule out;
    out.name = name(need(node, "text"));
    for (const Node& each : list(find(node, "parts"), "parts")) {
        ast::TextItem part;
        part.span = each.span;
        text_item(part, each);
        out.items.push_back(std::move(part));
    }
    return out;
}

void YamlReader::text_item(ast::TextItem& to, const Node& node) {
    if (node.kind == Node::Kind::scalar) {
        to.literal = string(node);
        return;
    }
    const auto* entry = single(node, "a capture");
    if (entry == nullptr) return;
    to.name = name(entry->first);
    to.kind = ast::TextItem::Kind::capture;
    to.rule = {"", entry->second.span};
    if (entry->second.kind == Node::Kind::list) {
        to.kind = ast::TextItem::Kind::choice;
        for (const Node& each : entry->second.items) to.choices.push_back(string(each));
        if (to.choices.empty())
            diags_.report(code::yaml_wrong_kind, entry->second.span, "a choice has no texts",
                          "give at least one: `[get, gets]`");
    } else if (scalar(entry->second, "a capture")) {
        fragment(entry->second, [&](Reader& reader, Builder& builder) {
            if (auto* tree = reader.read_one(&P::capture)) builder.capture(to, tree);
        });
    }
}

ast::Fn YamlReader::fn(const Node& node) {
    map(node, "a function", {"fn", "params", "let", "value"});
    ast::Fn out;
    out.name = name(need(node, "fn"));
    for (const Node& each : list(find(node, "params"), "names")) out.params.push_back(name(each));
    for (const Pair* each : pairs(find(node, "let"), "a value"))
        out.lets.push_back({name(each->first), expr(&each->second)});
    out.braces = !out.lets.empty();
    out.body = expr(&need(node, "value"));
    return out;
}

ast::Service YamlReader::service(const Node& node) {
    map(node, "a service", {"service", "on", "class", "requests", "texts", "cache", "handlers"});
    ast::Service out;
    out.name = name(need(node, "service"));
    for (const Node& each : list(&need(node, "on"), "endpoints")) {
        if (!scalar(each, "an endpoint")) continue;
        fragment(each, [&](Reader& reader, Builder& builder) {
            if (auto* tree = reader.read_one(&P::endpoint)) out.endpoints.push_back(builder.endpoint(tree));
        });
    }
    out.priority_class = optional_name(find(node, "class"));
    for (const Node& each : list(find(node, "requests"), "requests")) out.requests.push_back(request(each));
    for (const Node& each : list(find(node, "texts"), "text rules")) {
        ast::Comments around;
        begin(around, each);
        if (construct(each, {"text"}, "a text rule").empty()) continue;
        out.texts.push_back(text_rule(each));
        out.texts.back().comments = std::move(around);
    }
    if (const Pair* cache = find_pair(node, "cache");
        cache != nullptr && map(cache->second, "a cache", {"entries", "ttl", "key"})) {
        ast::Cache part;
        part.span = cache->first.span;
        begin(part.comments, cache->first);
        part.entries = expr(&need(cache->second, "entries"));
        part.ttl = expr(&need(cache->second, "ttl"));
        part.key = expr(find(cache->second, "key"));
        out.cache = std::move(part);
    }
    for (const Node& each : list(find(node, "handlers"), "handlers")) {
        out.handlers.push_back(handler(each));
    }
    return out;
}

ast::Handler YamlReader::handler(const Node& node) {
    ast::Handler out;
    out.span = node.span;
    begin(out.comments, node);
    if (!map(node, "a handler", {"on", "do"})) return out;
    const Node& event = need(node, "on");
    using Event = ast::Handler::Event;
    if (event.text == "malformed") out.event = Event::malformed;
    if (event.text == "failure") out.event = Event::failure;
    if (event.text == "datagram") out.event = Event::datagram;
    const char* wanted = "`request`, `malformed`, `failure` or `datagram`";
    if (scalar(event, wanted) && event.text != ast::event_word(out.event)) {
        diags_.report(code::unexpected, event.span, std::string("expected ") + wanted + ", found `" + event.text + "`",
                      "use one of these here");
    }
    out.body = block(find(node, "do"));
    return out;
}

ast::Request YamlReader::request(const Node& node) {
    using Transport = ast::Request::Transport;
    ast::Request out;
    out.span = node.span;
    begin(out.comments, node);
    if (!map(node, "a request", {"request", "fields"})) return out;
    const Node& kind = need(node, "request");
    if (kind.text == "tcp") out.transport = Transport::tcp;
    if (kind.text == "udp") out.transport = Transport::udp;
    if (scalar(kind, "`any`, `udp` or `tcp`") && kind.text != "any" && out.transport == Transport::any) {
        diags_.report(code::unexpected, kind.span, "expected `any`, `udp` or `tcp`, found `" + kind.text + "`",
                      "use one of these here");
    }
    out.fields = fields(find(node, "fields"));
    return out;
}

ast::Probe YamlReader::probe(const Node& node) {
    map(node, "a probe", {"probe", "kind", "site", "args"});
    ast::Probe out;
    out.name = name(need(node, "probe"));
    out.kind = name(need(node, "kind"));
    const Node& site = need(node, "site");
    out.site = string(site);
    out.site_span = site.span;
    for (const Pair* each : pairs(find(node, "args"), "an argument"))
        out.args.emplace_back(name(each->first), base_type(each->second));
    return out;
}

}  // namespace chainio::syntax
