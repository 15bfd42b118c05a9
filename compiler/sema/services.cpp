// Services: endpoints, requests, handlers and replies.
#include <algorithm>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::StmtKind;
using checked::Type;
using checked::TypeKind;

namespace {

const std::vector<std::string> kEngines{"auto", "user", "uring", "kernel", "xdp"};

}  // namespace

void Checker::check_endpoints(const ast::Service& n, checked::Service& out) {
    for (const auto& e : n.endpoints) {
        ir::Endpoint endpoint{e.tcp, 0, e.via.text};
        if (e.port)
            if (auto port = here_uint(*e.port, "the port", 1, 65535, port_range))
                endpoint.port = static_cast<std::uint16_t>(*port);
        if (std::ranges::find(kEngines, e.via.text) == kEngines.end()) {
            if (e.via.text.empty())
                failed_ = true;
            else
                error(unknown_engine, e.via.span, "there is no engine `" + e.via.text + "`",
                      suggestion(e.via.text, kEngines, "the engines are auto, user (or uring), kernel and xdp"));
        } else if (e.via.text == "xdp" && e.tcp) {
            error(xdp_over_tcp, e.via.span, "the xdp engine answers datagrams, and this is tcp",
                  "write `udp`, or `tcp … via uring`");
        } else {
            check_release(e);
        }
        for (const auto& other : out.info.endpoints) {
            if (endpoint.port != 0 && other.port == endpoint.port && other.tcp == endpoint.tcp)
                error(duplicate_endpoint, e.span,
                      std::string(e.tcp ? "tcp" : "udp") + " port " + std::to_string(endpoint.port) + " is given twice",
                      "keep one of the two");
        }
        warn_shared_port(endpoint, e.span, out);
        out.info.endpoints.push_back(endpoint);
    }
}

// What the engine of an endpoint needs of the kernel. `auto` becomes one that there is, of which the user engine is the
// oldest; the socket that stands beside AF_XDP is that engine's, too.
void Checker::check_release(const ast::Endpoint& e) {
    const std::string target = ", and the target is " + options_.target;
    const bool has_user = e.tcp ? target_has(5, 19) : target_has(6, 0);
    const char* const remedy = has_user ? "use `via uring`, or raise --target" : "raise --target";
    if (e.via.text == "kernel" && !target_has(7, 1))
        return error(target_too_old, e.via.span, "the kernel engine needs Linux 7.1" + target, remedy);
    if (e.via.text == "xdp" && !target_has(6, 1))
        return error(target_too_old, e.via.span, "the xdp engine needs Linux 6.1" + target, remedy);
    if (!has_user)
        error(target_too_old, e.via.span,
              std::string(e.via.text == "auto" ? "every engine needs Linux " : "the user engine needs Linux ") +
                  (e.tcp ? "5.19" : "6.0 for datagrams") + target,
              remedy);
}

// Two services on one port start together only when --port gives one of them another one. The place that is shown is in
// the file that is compiled: that of a service of its own, else the import that brings the second one. What is wrong
// within one import is said where that file is compiled.
void Checker::warn_shared_port(const ir::Endpoint& endpoint, Span span, const checked::Service& service) {
    for (std::size_t i = 0; endpoint.port != 0 && &module_.services[i] != &service; i++) {
        const checked::Service& other = module_.services[i];
        for (std::size_t at = 0; at < other.info.endpoints.size(); at++) {
            const ir::Endpoint& there = other.info.endpoints[at];
            if (there.port != endpoint.port || there.tcp != endpoint.tcp) continue;
            const std::string port = std::string(endpoint.tcp ? "tcp" : "udp") + " port " + std::to_string(there.port);
            const Span first = services_[i].first->endpoints[at].span;
            const bool second_is_shown = in_root(span);
            const ast::Import* const import = env_.scope->root_import();
            if (second_is_shown || in_root(first))
                warn(shared_port, second_is_shown ? span : first,
                     port + " is that of service `" + (second_is_shown ? other : service).name + "` as well",
                     "give one of the two another port, here or with --port",
                     {{second_is_shown ? first : span, "the other one is here"}});
            else if (import != services_[i].second->root_import())
                warn(
                    shared_port, import->path_span,
                    port + " of service `" + service.name + "` is that of service `" + other.name + "` as well",
                    "give one of the two another port with --port, or with a parameter that its file has for it",
                    first.file == span.file && first.line == span.line && first.col == span.col
                        ? std::vector<diag::Note>{{span, "both are this one"}}
                        : std::vector<diag::Note>{{first, "this one is the first"}, {span, "and this one the second"}});
            return;
        }
    }
}

// A request is a record at the beginning of the datagram or stream; fields that are text rules are matched on what
// follows.
std::optional<std::int32_t> Checker::request_record(const ast::Service& n, const ast::Request& request,
                                                    RequestScope& scope) {
    scope.fields = &request.fields;
    const ast::Field* text = nullptr;
    std::size_t data = 0;
    for (const auto& field : request.fields) {
        const auto* named = std::get_if<ast::NamedType>(&field.type.base);
        const bool is_text = field.kind == ast::Field::Kind::data && named && request_text(*named);
        if (text) {
            error(text_not_last, field.span,
                  "`" + text->name.text + "` takes the rest of the request, and a field follows",
                  "put the text rule last");
            return std::nullopt;
        }
        if (is_text)
            text = &field;
        else
            data++;
    }
    if (text && (text->at || text->when || text->equals || !text->choices.empty() || text->type.count)) {
        error(bad_modifier, text->name.span, "a text rule in a request stands after the other fields, as it is",
              "remove what follows its type");
        return std::nullopt;
    }
    if (data == 0) return -1;
    RecordInfo& info = records_.emplace_back();
    auto& fields = request_fields_.emplace_back();
    for (const auto& field : request.fields)
        if (&field != text) fields.push_back(&field);
    info.scope = env_.scope;
    info.span = request.span;
    info.picked = &fields;
    module_.records.emplace_back().name = n.name.text + ".request";
    const auto index = static_cast<std::uint32_t>(records_.size() - 1);
    record(index, request.span);
    return static_cast<std::int32_t>(index);
}

// Whether a request field's type is a text rule: one of the service's own, or of the file.
std::optional<std::uint32_t> Checker::request_text(const ast::NamedType& named) {
    const std::string& name = named.name.name.text;
    if (named.name.module.text.empty()) {
        if (auto it = service_texts_.find(name); it != service_texts_.end()) return it->second;
        Symbol* symbol = find(*env_.scope, name);
        if (!symbol || symbol->kind != SymbolKind::text) return std::nullopt;
        symbol->used = true;
        return symbol->index;
    }
    Symbol* module = find(*env_.scope, named.name.module.text);
    if (!module || module->kind != SymbolKind::module) return std::nullopt;
    Symbol* symbol = find(instances_[module->index], name);
    if (!symbol || symbol->kind != SymbolKind::text) return std::nullopt;
    module->used = symbol->used = true;
    return symbol->index;
}

// The body begins by matching the text rules: a request that does not match is malformed.
void Checker::bind_request(const ast::Request& request, RequestScope& scope, checked::Body& body, ir::Line line) {
    Type type{scope.record >= 0 ? TypeKind::view : TypeKind::bytes};
    type.record = scope.record >= 0 ? static_cast<std::uint32_t>(scope.record) : 0;
    type.max = scope.record >= 0 ? 0 : static_cast<std::uint32_t>(kMaxBlock);
    body.locals.push_back({"request", type, false});
    if (scope.datagram) return;
    for (const auto& field : request.fields) {
        const auto* named = std::get_if<ast::NamedType>(&field.type.base);
        auto rule = field.kind == ast::Field::Kind::data && named ? request_text(*named) : std::nullopt;
        if (!rule) continue;
        Type text{TypeKind::text};
        text.record = *rule;
        const std::uint32_t local = new_local(field.name.text, text, false);
        Value data = block_bytes(field.span);
        if (scope.record >= 0) {
            Value end = make(ExprKind::view_end, {TypeKind::integer}, field.span);
            end.expr->kids.push_back(make(ExprKind::local, type, field.span).expr);
            Value length = make(ExprKind::block_length, {TypeKind::integer}, field.span);
            Value slice = make(ExprKind::bytes_slice, data.expr->type, field.span);
            slice.expr->kids.push_back(std::move(data.expr));
            slice.expr->kids.push_back(std::move(end.expr));
            slice.expr->kids.push_back(std::move(length.expr));
            data = std::move(slice);
        }
        Type optional_text = text;
        optional_text.optional = true;
        Value match = make(ExprKind::text_match, optional_text, field.span);
        match.expr->kids.push_back(std::move(data.expr));
        auto let = std::make_unique<checked::Stmt>();
        let->kind = StmtKind::let;
        let->span = field.span;
        let->line = line;
        let->index = local;
        let->value = std::move(match.expr);
        auto fail = std::make_unique<checked::Stmt>();
        fail->kind = StmtKind::fail;
        fail->span = field.span;
        fail->line = line;
        fail->index = 1;
        let->otherwise.push_back(std::move(fail));
        body.block.push_back(std::move(let));
        Binding b;
        b.kind = Binding::Kind::value;
        b.value = make(ExprKind::local, text, field.span);
        b.value.expr->index = local;
        scope.texts.emplace(field.name.text, std::move(b));
    }
}

std::optional<checked::Handler> Checker::handler(const ast::Service& n, const ast::Request* request,
                                                 const ast::Handler& h) {
    checked::Handler out;
    RequestScope scope;
    static const std::vector<ast::Field> none;
    scope.fields = &none;
    scope.datagram = h.event == ast::Handler::Event::datagram;
    Env env;
    env.scope = env_.scope;
    env.site = Site::handler;
    env.block = true;
    env.locals = &out.body.locals;
    env.request = request ? &scope : nullptr;
    EnvScope there(*this, env);
    out.line = line_of(h.canonical_line);
    if (request) {
        auto index = request_record(n, *request, scope);
        scope.record = index.value_or(-1);
        out.request_record = scope.record;
        bind_request(*request, scope, out.body, out.line);
        for (const auto& [kind, name] :
             {std::pair{Binding::Kind::request, "request"}, {Binding::Kind::datagram, "datagram"}}) {
            if (kind == Binding::Kind::datagram && !scope.datagram) continue;
            Binding b;
            b.kind = kind;
            b.name = name;
            b.span = request->span;
            b.used = true;
            bind(std::move(b));
        }
    } else {
        out.body.locals.push_back({"request", {}, false});
    }
    block(h.body, out.body.block);
    skips_first(out.body.block);
    return out;
}

// The key under which replies are cached: a body that replies with it, which nobody runs: what matters is what it
// names.
checked::Body Checker::key_body(const ast::Service& n, const ast::Request& request, const ast::Expr& key) {
    checked::Body body;
    RequestScope scope;
    Env env;
    env.scope = env_.scope;
    env.site = Site::handler;
    env.block = true;
    env.locals = &body.locals;
    env.request = &scope;
    EnvScope there(*this, env);
    auto index = request_record(n, request, scope);
    scope.record = index.value_or(-1);
    bind_request(request, scope, body, {});
    Binding b;
    b.kind = Binding::Kind::request;
    b.name = "request";
    b.span = request.span;
    b.used = true;
    bind(std::move(b));
    Value v = value(key);
    if (v && v.expr->type.kind != TypeKind::integer && v.expr->type.kind != TypeKind::bytes)
        v = wrong(v, key.span, "an integer or bytes", "the key of the cache");
    settle(v);
    if (!v) return body;
    const bool is_bytes = v.expr->type.kind == TypeKind::bytes;
    auto ret = std::make_unique<checked::Stmt>();
    ret->kind = StmtKind::reply;
    ret->span = key.span;
    ret->parts.push_back({std::move(v.expr), is_bytes ? ir::Format::bytes : ir::Format::u64le});
    body.block.push_back(std::move(ret));
    return body;
}

void Checker::check_cache(const ast::Service& n, checked::Service& out) {
    if (n.cache->entries)
        if (auto v = here_uint(*n.cache->entries, "the number of cache entries", 1, 1U << 20, cache_entries))
            out.info.cache.entries = static_cast<std::uint32_t>(*v);
    if (n.cache->ttl)
        if (auto v = here_uint(*n.cache->ttl, "ttl", 1, 24ULL * 3600 * 1000000000, out_of_range, ast::Unit::time))
            out.info.cache.ttl_ns = *v;
    if (!n.cache->key) return;
    for (const auto& request : n.requests) {
        checked::Body body = key_body(n, request, *n.cache->key);
        if (request.transport != ast::Request::Transport::tcp) out.udp_key = std::move(body);
    }
}

void Checker::check_service(std::uint32_t index) {
    const auto [n, instance] = services_[index];
    checked::Service& out = module_.services[index];
    EnvScope there(
        *this, Env{.scope = instance, .site = Site::constant, .locals = &constant_locals_, .base = bindings_.size()});
    out.span = n->name.span;
    out.info.name = out.name;
    if (n->priority_class) out.info.priority_class = class_named(*n->priority_class);
    service_texts_.clear();
    for (const auto& text : n->texts) {
        texts_.push_back({&text, instance});
        module_.texts.emplace_back().name = text.name.text;
        const auto made = static_cast<std::uint32_t>(texts_.size() - 1);
        if (!service_texts_.try_emplace(text.name.text, made).second)
            error(duplicate_name, text.name.span, "the service has two text rules `" + text.name.text + "`",
                  "rename one of the two");
        resolve_text(made);
    }
    check_endpoints(*n, out);
    if (n->cache) check_cache(*n, out);
    check_handlers(*n, out);
    if (n->cache) check_kept(*n, out);
    warn_request(*n, out);
    service_texts_.clear();
}

void Checker::check_handlers(const ast::Service& n, checked::Service& out) {
    const ast::Handler* on_request = nullptr;
    const ast::Handler* on_malformed = nullptr;
    const ast::Handler* on_failure = nullptr;
    const ast::Handler* on_datagram = nullptr;
    for (const auto& h : n.handlers) {
        using Event = ast::Handler::Event;
        const ast::Handler*& seen = h.event == Event::malformed  ? on_malformed
                                    : h.event == Event::failure  ? on_failure
                                    : h.event == Event::datagram ? on_datagram
                                                                 : on_request;
        if (seen)
            error(duplicate_handler, h.span,
                  std::string("the service has two handlers `on ") + ast::event_word(h.event) + "`",
                  "keep one of the two", {{seen->span, "the first is here"}});
        else
            seen = &h;
    }
    const bool cut = env_.scope->is_broken(n.name.text);  // what is missing may stand in text that could not be read
    if (!on_request && !cut)
        error(no_request_handler, n.name.span, "service `" + n.name.text + "` answers no request",
              "add `on request { reply … }`");
    for (const bool tcp : {false, true}) {
        const bool served = std::ranges::any_of(n.endpoints, [&](const auto& e) { return e.tcp == tcp; });
        const ast::Request* request = nullptr;
        for (const auto& r : n.requests) {
            const bool matches =
                r.transport == ast::Request::Transport::any || (r.transport == ast::Request::Transport::tcp) == tcp;
            if (!matches) continue;
            if (request)
                error(duplicate_handler, r.span,
                      std::string("the request over ") + (tcp ? "tcp" : "udp") + " is described twice",
                      "keep one of the two, or say `request udp` and `request tcp`");
            else
                request = &r;
        }
        if (!served) {
            if (request && request->transport != ast::Request::Transport::any)
                error(missing_request, request->span,
                      std::string("the service has no ") + (tcp ? "tcp" : "udp") + " endpoint for this request",
                      "add the endpoint, or remove the request");
            continue;
        }
        if (!request && cut) continue;
        if (!request) {
            error(missing_request, n.name.span,
                  std::string("what a request over ") + (tcp ? "tcp" : "udp") + " looks like is not said",
                  "describe it: `request { key: u64be }`");
            continue;
        }
        if (!on_request) continue;
        auto made = handler(n, request, *on_request);
        if (tcp) {
            out.tcp = std::move(made);
            if (out.tcp) stream_framing(*request, out);
        } else {
            if (made) out.info.udp_framing = framing(*request, *made);
            if (on_datagram) out.datagram = handler(n, request, *on_datagram);
            if (out.datagram) refuse_long_begin(out.datagram->body.block);
            out.udp = std::move(made);
        }
    }
    if (on_datagram && std::ranges::all_of(n.endpoints, [](const auto& e) { return e.tcp; }))
        error(missing_request, on_datagram->span, "the service has no udp endpoint, so that no reply has datagrams",
              "add the endpoint, or remove `on datagram`");
    if (on_failure) out.failure = handler(n, nullptr, *on_failure);
    if (on_malformed) out.malformed = handler(n, nullptr, *on_malformed);
}

bool Checker::reply_part(const ast::ReplyPart& n, checked::Block& out, const ast::Stmt& s, checked::ReplyPart& part) {
    static const std::vector<std::string> words{"dec",   "hex",   "u8",    "u16le", "u16be",
                                                "u32le", "u32be", "u64le", "u64be"};
    if (!n.value) {
        failed_ = true;
        return false;
    }
    Value v = any(*n.value);
    if (n.format) {
        auto it = std::ranges::find(words, n.format->text);
        if (it == words.end()) {
            error(reply_format, n.format->span, "there is no format `" + n.format->text + "`",
                  suggestion(n.format->text, words,
                             "formats are dec, hex, u8, u16le, u16be, u32le, u32be, u64le and u64be"));
            return false;
        }
        part.format = static_cast<ir::Format>(it - words.begin() + 1);
    }
    if (!v) return false;
    if (v.expr->type.optional && v.expr->kind == ExprKind::call_chain) {
        // A chain that has no result answers nothing: the request fails, and `on malformed` or a plain error replies.
        Type type = v.expr->type;
        type.optional = false;
        const std::uint32_t local = new_local("reply", type, false);
        Value named = local_value(local, v, n.value->span);
        checked::Stmt& let = add(out, StmtKind::let, s);
        let.index = local;
        let.value = std::move(v.expr);
        checked::Stmt& fail = add(let.otherwise, StmtKind::fail, s);
        fail.index = 9;
        v = std::move(named);
    }
    if (v.expr->type.optional) {
        error(optional_unused, n.value->span, "this value may be absent", "take it with `let x = … else …`");
        return false;
    }
    const bool is_bytes = part.format == ir::Format::bytes;
    if (!n.format && v.expr->type.kind == TypeKind::integer) {
        error(reply_format, n.value->span, "how this integer is written is not said",
              "add a format: `:dec`, `:hex`, `:u32be` …");
        return false;
    }
    if (v.expr->type.kind != (is_bytes ? TypeKind::bytes : TypeKind::integer)) {
        wrong(v, n.value->span, is_bytes ? "bytes" : "an integer", "this part of the reply");
        return false;
    }
    settle(v);
    part.value = std::move(v.expr);
    return true;
}

bool Checker::reply_stmt(const ast::Stmt& s, const ast::Reply& n, checked::Block& out) {
    if (env_.site != Site::handler)
        error(reply_outside_service, s.span, "`reply` outside of a service",
              env_.site == Site::shadow ? "a shadow chain answers nobody: `prefetch`" : "a chain ends with `return`");
    auto made = std::make_unique<checked::Stmt>();
    made->kind = StmtKind::reply;
    made->span = s.span;
    made->line = line_of(s.canonical_line);
    bool ok = env_.site == Site::handler;
    if (n.parts.size() > kMaxReplyParts)
        error(reply_too_long, s.span, "this reply has " + std::to_string(n.parts.size()) + " parts",
              "use at most 64; several replies follow one another");
    for (const auto& p : n.parts) {
        checked::ReplyPart part;
        ok &= reply_part(p, out, s, part);
        made->parts.push_back(std::move(part));
    }
    if (ok) out.push_back(std::move(made));
    return false;
}

}  // namespace chainio::sema
