#include "compiler/syntax/build.h"
#include "compiler/syntax/codes.h"

namespace chainio::syntax {

namespace {

// The opening brace of a declaration that holds a list; nullptr for others.
antlr4::Token* brace_of(P::ItemContext* tree) {
    if (tree->imported != nullptr) return tree->imported->brace;
    if (tree->layout != nullptr) return tree->layout->brace;
    if (tree->rule_ != nullptr) return tree->rule_->brace;
    if (tree->whole != nullptr) return tree->whole->brace;
    if (tree->function != nullptr) return tree->function->brace;
    if (tree->chain != nullptr) return tree->chain->brace;
    if (tree->service != nullptr) return tree->service->brace;
    return nullptr;
}

}  // namespace

ast::Item Builder::item(P::ItemContext* tree) {
    ast::Item out;
    out.span = span(tree);
    begin(out.comments, tree);
    out.blank_before = out.comments.blank_before;
    after_brace(out.comments, brace_of(tree));
    item_node(out, tree);
    end(out.comments, tree);
    return out;
}

void Builder::item_node(ast::Item& to, P::ItemContext* tree) {
    if (tree->imported != nullptr) {
        to.node = import(tree->imported);
    } else if (tree->parameter != nullptr) {
        ast::Param out;
        if (tree->parameter->files_ != nullptr)
            out.files = file_class(tree->parameter->files_);
        else
            out.constant = binding(tree->parameter->constant);
        to.node = std::move(out);
    } else if (tree->constant != nullptr) {
        to.node = ast::Const{binding(tree->constant->constant)};
    } else if (tree->whole != nullptr) {
        to.node = app(tree->whole);
    } else if (tree->part != nullptr) {
        ast::AppItem out;
        out.span = span(tree->part);
        app_item_node(out, tree->part);
        to.node = std::move(out);
    } else if (tree->layout != nullptr) {
        to.node = record(tree->layout);
    } else if (tree->rule_ != nullptr) {
        to.node = text_rule(tree->rule_);
    } else if (tree->function != nullptr) {
        to.node = fn(tree->function);
    } else if (tree->chain != nullptr) {
        to.node = chain(tree->chain);
    } else if (tree->service != nullptr) {
        to.node = service(tree->service);
    } else {
        to.node = probe(tree->probe);
    }
}

ast::Binding Builder::binding(P::BindingContext* tree) { return {name(tree->name), expr(tree->value)}; }

ast::Import Builder::import(P::ImportDeclContext* tree) {
    ast::Import out;
    out.path = string(tree->path);
    out.path_span = as_token(tree->path).span;
    if (tree->alias != nullptr) out.alias = name(tree->alias);
    for (P::BindingContext* each : tree->bindings) out.bindings.push_back(binding(each));
    return out;
}

ast::App Builder::app(P::AppDeclContext* tree) {
    ast::App out;
    out.name = name(tree->name);
    for (P::AppItemContext* each : tree->items) out.items.push_back(app_item(each));
    before_close(out.closing_comments, tree);
    return out;
}

ast::AppItem Builder::app_item(P::AppItemContext* tree) {
    ast::AppItem out;
    out.span = span(tree);
    begin(out.comments, tree);
    app_item_node(out, tree);
    end(out.comments, tree);
    return out;
}

void Builder::app_item_node(ast::AppItem& to, P::AppItemContext* tree) {
    if (tree->exe != nullptr) {
        antlr4::Token* pattern = tree->exe->pattern;
        to.node = ast::MatchExe{string(pattern), as_token(pattern).span};
    } else if (tree->files_ != nullptr) {
        to.node = file_class(tree->files_);
    } else if (P::SocketDeclContext* socket = tree->socket_; socket != nullptr) {
        to.node = ast::Socket{name(socket->name), socket->proto->getType() == P::TCP, expr(socket->number)};
    } else if (tree->priority != nullptr) {
        to.node = priority_class(tree->priority);
    } else {
        to.node = batch(tree->whole);
    }
}

ast::FileClass Builder::file_class(P::FilesDeclContext* tree) {
    ast::FileClass out;
    out.name = name(tree->name);
    out.pattern = string(tree->pattern);
    out.pattern_span = as_token(tree->pattern).span;
    for (P::FileAttrContext* each : tree->attrs) {
        if (each->flag != nullptr && each->flag->getType() == P::DIRECT) out.direct = true;
        if (each->flag != nullptr && each->flag->getType() == P::IMMUTABLE) out.immutable = true;
        if (each->flag != nullptr && each->flag->getType() == P::NO_READ_AHEAD) out.no_read_ahead = true;
        if (each->header != nullptr) out.header = name(each->header);
        if (each->root != nullptr) out.root = string(each->root);
        if (each->index != nullptr) out.index = expr(each->index);
        if (each->bytes == nullptr) continue;
        out.cache_bytes = expr(each->bytes);
        out.cache_levels = expr(each->levels);
    }
    return out;
}

ast::PriorityClass Builder::priority_class(P::ClassDeclContext* tree) {
    ast::PriorityClass out;
    out.name = name(tree->name);
    for (P::ClassAttrContext* each : tree->attrs) {
        using Kind = ast::ClassAttr::Kind;
        const std::size_t kind = each->kind->getType();
        ast::ClassAttr attr{kind == P::PRIORITY ? Kind::priority
                            : kind == P::WEIGHT ? Kind::weight
                                                : Kind::slo,
                            {},
                            expr(each->value)};
        if (each->percentile != nullptr) attr.percentile = name(each->percentile);
        out.attrs.push_back(std::move(attr));
    }
    return out;
}

ast::Batch Builder::batch(P::BatchDeclContext* tree) {
    ast::Batch out;
    out.span = span(tree);
    for (P::BatchAttrContext* each : tree->attrs) {
        if (each->kind->getType() == P::ADAPT)
            out.adapt = true;
        else
            (each->kind->getType() == P::MIN ? out.min : out.max) = expr(each->value);
    }
    return out;
}

ast::Record Builder::record(P::RecordDeclContext* tree) {
    ast::Record out;
    out.name = name(tree->name);
    out.fields = fields(tree->fields);
    before_close(out.closing_comments, tree);
    return out;
}

std::vector<ast::Field> Builder::fields(const std::vector<P::FieldContext*>& trees) {
    std::vector<ast::Field> out;
    out.reserve(trees.size());
    for (P::FieldContext* each : trees) out.push_back(field(each));
    return out;
}

ast::Field Builder::field(P::FieldContext* tree) {
    ast::Field out;
    out.span = span(tree);
    begin(out.comments, tree);
    if (tree->let != nullptr) {
        out.kind = ast::Field::Kind::derived;
        out.name = name(tree->name);
        out.value = expr(tree->value);
    } else {
        out.name = tree->name == nullptr ? ast::Name{"_", as_token(tree->start).span} : name(tree->name);
        field_body(out, tree->body);
    }
    end(out.comments, tree);
    return out;
}

void Builder::field_body(ast::Field& to, P::FieldBodyContext* tree) {
    if (tree->skip != nullptr) {
        to.kind = ast::Field::Kind::skip;
        to.at = expr(tree->offset);
        if (to.name.text != "_") {
            diags_.report(code::unexpected, as_token(tree->skip).span, "expected the type of `" + to.name.text + "`",
                          "write `" + to.name.text + ": u32le at …`; only `_: at OFFSET` has no type");
        }
        to.name = {};
        return;
    }
    to.type = type(tree->type);
    to.equals = expr(tree->equals);
    for (P::FieldModContext* each : tree->mods) field_mod(to, each);
    split_at(to);
}

void Builder::field_mod(ast::Field& to, P::FieldModContext* tree) {
    const bool again = (tree->kind->getType() == P::AT && to.at != nullptr) ||
                       (tree->kind->getType() == P::WHEN && to.when != nullptr) ||
                       (tree->kind->getType() == P::IN && !to.choices.empty());
    if (again) {
        diags_.report(code::unexpected, span(tree), "this field has `" + tree->kind->getText() + "` twice",
                      "keep one of them");
        return;
    }
    if (tree->kind->getType() == P::IN) {
        for (P::EnumItemContext* each : tree->choices) to.choices.push_back({expr(each->value), name(each->name)});
    } else {
        (tree->kind->getType() == P::AT ? to.at : to.when) = expr(tree->value);
    }
}

// `at E == C`: an offset is never a truth value, so the comparison is the field's own.
void Builder::split_at(ast::Field& to) {
    if (to.at == nullptr || to.equals != nullptr || to.at->parenthesised) return;
    auto* compare = std::get_if<ast::Binary>(&to.at->node);
    if (compare == nullptr || compare->op != ast::BinaryOp::eq) return;
    to.equals = std::move(compare->right);
    ast::ExprPtr offset = std::move(compare->left);
    to.at = std::move(offset);
}

ast::Type Builder::type(P::FieldTypeContext* tree) {
    ast::Type out = base_type(tree->base);
    out.span = span(tree);
    out.count = expr(tree->count);
    out.max = expr(tree->bound);
    return out;
}

ast::Type Builder::base_type(P::BaseTypeContext* tree) {
    ast::Type out;
    out.span = span(tree);
    const std::size_t kind = tree->kind == nullptr ? P::IDENT : tree->kind->getType();
    if (kind == P::BYTES) {
        ast::Arg length;
        length.is_max = tree->bound != nullptr;
        length.value = expr(tree->length);
        if (!length.is_max) take_bound(length);
        ast::BytesType bytes{length.is_max, std::move(length.value)};
        out.base = std::move(bytes);
    } else if (kind == P::CSTR) {
        out.base = ast::CstrType{expr(tree->length), tree->stop == nullptr ? nullptr : expr(tree->stop)};
    } else if (kind == P::BITS) {
        ast::BitsType bits{name(tree->base), {}};
        for (P::BitFieldContext* each : tree->bits) {
            ast::Name field = each->name == nullptr ? ast::Name{"_", as_token(each->start).span} : name(each->name);
            bits.fields.push_back({std::move(field), expr(each->width)});
        }
        out.base = std::move(bits);
    } else {
        P::TypeNameContext* named = tree->named;
        ast::QualifiedName full{{}, name(named->first)};
        if (named->second != nullptr) {
            full.module = std::move(full.name);
            full.name = {named->second->getText(), as_token(named->second).span};
        }
        out.base = ast::NamedType{std::move(full)};
    }
    return out;
}

ast::TextRule Builder::text_rule(P::TextDeclContext* tree) {
    ast::TextRule out;
    out.name = name(tree->name);
    for (P::TextItemContext* each : tree->items) out.items.push_back(text_item(each));
    return out;
}

ast::TextItem Builder::text_item(P::TextItemContext* tree) {
    ast::TextItem out;
    out.span = span(tree);
    if (tree->literal != nullptr) {
        out.literal = string(tree->literal);
        return out;
    }
    out.name = name(tree->name);
    if (tree->body != nullptr) {
        capture(out, tree->body);
        return out;
    }
    out.kind = ast::TextItem::Kind::choice;
    for (antlr4::Token* each : tree->choices) out.choices.push_back(string(each));
    return out;
}

void Builder::capture(ast::TextItem& to, P::CaptureContext* tree) {
    to.kind = ast::TextItem::Kind::capture;
    to.rule = name(tree->rule_);
    to.max = expr(tree->bound);
    if (P::TextRepeatContext* repeat = tree->repeat; repeat != nullptr) {
        to.repeat_low = expr(repeat->low);
        to.repeat_high = expr(repeat->high);
        to.separator = string(repeat->separator);
    }
}

ast::Fn Builder::fn(P::FnDeclContext* tree) {
    ast::Fn out;
    out.name = name(tree->name);
    for (P::WordContext* each : tree->params) out.params.push_back(name(each));
    if (tree->value != nullptr) {
        out.body = expr(tree->value);
        return out;
    }
    for (P::FnLetContext* each : tree->body->lets) out.lets.push_back({name(each->name), expr(each->value)});
    out.body = expr(tree->body->result);
    out.braces = !out.lets.empty();
    return out;
}

ast::Probe Builder::probe(P::ProbeDeclContext* tree) {
    ast::Probe out;
    out.name = name(tree->name);
    out.kind = name(tree->kind);
    out.site = string(tree->site);
    out.site_span = as_token(tree->site).span;
    for (P::ProbeArgContext* each : tree->args) out.args.emplace_back(name(each->name), base_type(each->type));
    return out;
}

}  // namespace chainio::syntax
