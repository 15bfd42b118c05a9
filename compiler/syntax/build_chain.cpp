#include "compiler/syntax/build.h"
#include "compiler/syntax/codes.h"

namespace chainio::syntax {

ast::ChainParam Builder::param(P::ParamContext* tree) {
    ast::ChainParam out;
    out.name = name(tree->name);
    param_type(out, tree->type);
    return out;
}

void Builder::param_type(ast::ChainParam& to, P::ParamTypeContext* tree) {
    if (tree->file_ != nullptr) {
        to.file = qualified(tree->file_);
    } else {
        to.type = base_type(tree->base);
    }
}

ast::Event Builder::event(P::EventContext* tree) {
    ast::Event out{ast::EventKind::read, qualified(tree->target), name(tree->name)};
    switch (tree->kind->getType()) {
        case P::OPEN: out.kind = ast::EventKind::open; break;
        case P::READY: out.kind = ast::EventKind::ready; break;
        case P::PROBE: out.kind = ast::EventKind::probe; break;
        default: break;
    }
    return out;
}

ast::Chain Builder::chain(P::ChainDeclContext* tree) {
    ast::Chain out;
    out.name = name(tree->name);
    for (P::ParamContext* each : tree->params) out.params.push_back(param(each));
    if (tree->trigger != nullptr) out.event = event(tree->trigger);
    if (tree->class_ != nullptr) out.priority_class = name(tree->class_);
    if (tree->result != nullptr) out.returns = base_type(tree->result);
    out.hops = expr(tree->hops);
    out.body.span = span(tree);
    for (P::ChainItemContext* each : tree->items) {
        if (each->state != nullptr) {
            state(out, each->state);
        } else if (each->step != nullptr) {
            out.steps.push_back(step(each->step));
        } else if (each->done != nullptr) {
            if (out.done) {
                diags_.report(code::unexpected, span(each), "this chain has a second `done`",
                              "merge it into the first one");
                continue;
            }
            begin(out.done_comments, each);
            after_brace(out.done_comments, each->done->body->start);
            out.done = block(each->done->body);
            end(out.done_comments, each);
        } else {
            out.body.stmts.push_back(stmt(each->statement));
        }
    }
    before_close(out.body.closing_comments, tree);
    return out;
}

void Builder::state(ast::Chain& to, P::StateDeclContext* tree) {
    const std::size_t first = to.state.size();
    ast::Comments around;
    begin(around, tree);
    for (P::StateVarContext* each : tree->vars) to.state.push_back(state_var(each));
    end(around, tree);
    if (first == to.state.size()) return;
    // The comments of the braces go to the variables, which are what they are about.
    std::vector<std::string>& leading = to.state[first].comments.leading;
    leading.insert(leading.begin(), around.leading.begin(), around.leading.end());
    if (!around.trailing.empty()) to.state.back().comments.leading.push_back(around.trailing);
}

ast::StateVar Builder::state_var(P::StateVarContext* tree) {
    ast::StateVar out;
    out.span = span(tree);
    begin(out.comments, tree);
    out.name = name(tree->name);
    state_type(out, tree->type);
    end(out.comments, tree);
    return out;
}

void Builder::state_type(ast::StateVar& to, P::StateTypeContext* tree) {
    to.type = base_type(tree->base);
    to.value = expr(tree->value);
}

ast::Step Builder::step(P::StepDeclContext* tree) {
    ast::Step out;
    out.span = span(tree);
    begin(out.comments, tree);
    after_brace(out.comments, tree->body->start);
    out.name = name(tree->name);
    out.param = name(tree->view);
    if (tree->record != nullptr) out.record = qualified(tree->record);
    out.from = expr(tree->from);
    out.at = expr(tree->at);
    out.length = expr(tree->length);
    if (tree->file_ != nullptr) out.file = name(tree->file_);
    out.body = block(tree->body);
    end(out.comments, tree);
    return out;
}

ast::Endpoint Builder::endpoint(P::EndpointContext* tree) {
    return {span(tree), tree->proto->getType() == P::TCP, expr(tree->number), name(tree->engine)};
}

ast::Handler Builder::handler(P::HandlerDeclContext* tree) {
    ast::Handler out;
    out.span = span(tree);
    begin(out.comments, tree);
    after_brace(out.comments, tree->body->start);
    if (tree->what->getType() == P::MALFORMED) out.event = ast::Handler::Event::malformed;
    if (tree->what->getType() == P::FAILURE) out.event = ast::Handler::Event::failure;
    if (tree->what->getType() == P::DATAGRAM) out.event = ast::Handler::Event::datagram;
    out.body = block(tree->body);
    end(out.comments, tree);
    return out;
}

ast::Service Builder::service(P::ServiceDeclContext* tree) {
    ast::Service out;
    out.name = name(tree->name);
    for (P::EndpointContext* each : tree->endpoints) out.endpoints.push_back(endpoint(each));
    if (tree->class_ != nullptr) out.priority_class = name(tree->class_);
    for (P::ServiceItemContext* each : tree->items) {
        if (P::RequestDeclContext* request = each->request; request != nullptr) {
            using Transport = ast::Request::Transport;
            ast::Request part;
            part.span = span(request);
            begin(part.comments, request);
            after_brace(part.comments, request->brace);
            if (request->proto != nullptr)
                part.transport = request->proto->getType() == P::TCP ? Transport::tcp : Transport::udp;
            part.fields = fields(request->fields);
            end(part.comments, request);
            out.requests.push_back(std::move(part));
        } else if (P::TextDeclContext* text = each->rule_; text != nullptr) {
            ast::Comments around;
            begin(around, text);
            out.texts.push_back(text_rule(text));
            end(around, text);
            out.texts.back().comments = std::move(around);
        } else if (P::CacheDeclContext* cache = each->cache; cache != nullptr) {
            if (out.cache) {
                diags_.report(code::unexpected, span(cache), "this service has a second `cache`", "keep one of them");
                continue;
            }
            ast::Cache part;
            part.span = span(cache);
            begin(part.comments, cache);
            part.entries = expr(cache->entries);
            part.ttl = expr(cache->ttl);
            part.key = expr(cache->key);
            end(part.comments, cache);
            out.cache = std::move(part);
        } else {
            out.handlers.push_back(handler(each->handler));
        }
    }
    before_close(out.closing_comments, tree);
    return out;
}

}  // namespace chainio::syntax
