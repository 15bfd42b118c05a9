#include "compiler/syntax/build.h"
#include "compiler/syntax/codes.h"

namespace chainio::syntax {

using P = grammar::ChainParser;

namespace {

antlr4::Token* symbol(antlr4::tree::TerminalNode* node) { return node == nullptr ? nullptr : node->getSymbol(); }

// The opening brace of a declaration that holds a list; nullptr for others.
antlr4::Token* brace_of(P::ItemContext* tree) {
    if (auto* each = tree->recordDecl()) return symbol(each->LBRACE());
    if (auto* each = tree->textDecl()) return symbol(each->LBRACE());
    if (auto* each = tree->appDecl()) return symbol(each->LBRACE());
    if (auto* each = tree->chainDecl()) return symbol(each->LBRACE());
    if (auto* each = tree->serviceDecl()) return symbol(each->LBRACE());
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
    if (auto* imported = tree->importDecl()) {
        to.node = import(imported);
    } else if (auto* param = tree->paramDecl()) {
        ast::Param out;
        if (param->filesDecl() != nullptr)
            out.files = file_class(param->filesDecl());
        else
            out.constant = binding(param->binding());
        to.node = std::move(out);
    } else if (auto* constant = tree->constDecl()) {
        to.node = ast::Const{binding(constant->binding())};
    } else if (auto* whole = tree->appDecl()) {
        to.node = app(whole);
    } else if (auto* part = tree->appItem()) {
        ast::AppItem out;
        out.span = span(part);
        app_item_node(out, part);
        to.node = std::move(out);
    } else if (auto* rec = tree->recordDecl()) {
        to.node = record(rec);
    } else if (auto* text = tree->textDecl()) {
        to.node = text_rule(text);
    } else if (auto* function = tree->fnDecl()) {
        to.node = fn(function);
    } else if (auto* chain_tree = tree->chainDecl()) {
        to.node = chain(chain_tree);
    } else if (auto* service_tree = tree->serviceDecl()) {
        to.node = service(service_tree);
    } else {
        to.node = probe(tree->probeDecl());
    }
}

ast::Binding Builder::binding(P::BindingContext* tree) { return {name(tree->word()), expr(tree->expr())}; }

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
    out.name = name(tree->word());
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
    if (auto* exe = tree->matchExe()) {
        antlr4::Token* pattern = exe->STRING()->getSymbol();
        to.node = ast::MatchExe{string(pattern), as_token(pattern).span};
    } else if (auto* files = tree->filesDecl()) {
        to.node = file_class(files);
    } else if (auto* socket = tree->socketDecl()) {
        to.node = ast::Socket{name(socket->word()), socket->proto->getType() == P::TCP, expr(socket->expr())};
    } else if (auto* priority = tree->classDecl()) {
        to.node = priority_class(priority);
    } else {
        to.node = batch(tree->batchDecl());
    }
}

ast::FileClass Builder::file_class(P::FilesDeclContext* tree) {
    ast::FileClass out;
    out.name = name(tree->word());
    antlr4::Token* pattern = tree->STRING()->getSymbol();
    out.pattern = string(pattern);
    out.pattern_span = as_token(pattern).span;
    for (P::FileAttrContext* each : tree->attrs) {
        if (each->flag != nullptr && each->flag->getType() == P::DIRECT) out.direct = true;
        if (each->flag != nullptr && each->flag->getType() == P::IMMUTABLE) out.immutable = true;
        if (each->header != nullptr) out.header = name(each->header);
        if (each->root != nullptr) out.root = string(each->root);
        if (each->bytes == nullptr) continue;
        out.cache_bytes = expr(each->bytes);
        out.cache_levels = expr(each->levels);
    }
    return out;
}

ast::PriorityClass Builder::priority_class(P::ClassDeclContext* tree) {
    ast::PriorityClass out;
    out.name = name(tree->word());
    for (P::ClassAttrContext* each : tree->attrs) {
        using Kind = ast::ClassAttr::Kind;
        const std::size_t kind = each->kind->getType();
        ast::ClassAttr attr{kind == P::PRIORITY ? Kind::priority
                            : kind == P::WEIGHT ? Kind::weight
                                                : Kind::slo,
                            {},
                            expr(each->expr())};
        if (each->word() != nullptr) attr.percentile = name(each->word());
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
            (each->kind->getType() == P::MIN ? out.min : out.max) = expr(each->expr());
    }
    return out;
}

ast::Record Builder::record(P::RecordDeclContext* tree) {
    ast::Record out;
    out.name = name(tree->word());
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
    if (tree->LET() != nullptr) {
        out.kind = ast::Field::Kind::derived;
        out.name = name(tree->word());
        out.value = expr(tree->expr());
    } else {
        out.name = tree->UNDERSCORE() != nullptr ? ast::Name{"_", as_token(tree->start).span} : name(tree->word());
        field_body(out, tree->fieldBody());
    }
    end(out.comments, tree);
    return out;
}

void Builder::field_body(ast::Field& to, P::FieldBodyContext* tree) {
    if (tree->skip != nullptr) {
        to.kind = ast::Field::Kind::skip;
        to.at = expr(tree->expr());
        if (to.name.text != "_") {
            diags_.report(code::unexpected, as_token(tree->skip).span, "expected the type of `" + to.name.text + "`",
                          "write `" + to.name.text + ": u32le at …`; only `_: at OFFSET` has no type");
        }
        to.name = {};
        return;
    }
    to.type = type(tree->fieldType());
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
        for (P::EnumItemContext* each : tree->enumItem())
            to.choices.push_back({expr(each->expr()), name(each->word())});
    } else {
        (tree->kind->getType() == P::AT ? to.at : to.when) = expr(tree->expr());
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
    ast::Type out = base_type(tree->baseType());
    out.span = span(tree);
    out.count = expr(tree->count);
    out.max = expr(tree->bound);
    return out;
}

ast::Type Builder::base_type(P::BaseTypeContext* tree) {
    ast::Type out;
    out.span = span(tree);
    if (tree->BYTES() != nullptr) {
        ast::Arg length;
        length.is_max = tree->bound != nullptr;
        length.value = expr(tree->expr());
        if (!length.is_max) take_bound(length);
        ast::BytesType bytes{length.is_max, std::move(length.value)};
        out.base = std::move(bytes);
    } else if (tree->CSTR() != nullptr) {
        out.base = ast::CstrType{expr(tree->expr())};
    } else if (tree->BITS() != nullptr) {
        ast::BitsType bits{name(tree->word()), {}};
        for (P::BitFieldContext* each : tree->bits) {
            ast::Name field =
                each->UNDERSCORE() != nullptr ? ast::Name{"_", as_token(each->start).span} : name(each->word());
            bits.fields.push_back({std::move(field), expr(each->expr())});
        }
        out.base = std::move(bits);
    } else {
        P::TypeNameContext* named = tree->typeName();
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
    out.name = name(tree->word());
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
    out.name = name(tree->word());
    if (tree->capture() != nullptr) {
        capture(out, tree->capture());
        return out;
    }
    out.kind = ast::TextItem::Kind::choice;
    for (antlr4::Token* each : tree->choices) out.choices.push_back(string(each));
    return out;
}

void Builder::capture(ast::TextItem& to, P::CaptureContext* tree) {
    to.kind = ast::TextItem::Kind::capture;
    to.rule = name(tree->word());
    to.max = expr(tree->expr());
    if (P::TextRepeatContext* repeat = tree->textRepeat(); repeat != nullptr) {
        to.repeat_low = expr(repeat->low);
        to.repeat_high = expr(repeat->high);
        to.separator = string(repeat->STRING()->getSymbol());
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
    for (P::FnLetContext* each : tree->fnBody()->lets) out.lets.push_back({name(each->word()), expr(each->expr())});
    out.body = expr(tree->fnBody()->expr());
    out.braces = !out.lets.empty();
    return out;
}

ast::Probe Builder::probe(P::ProbeDeclContext* tree) {
    ast::Probe out;
    out.name = name(tree->name);
    out.kind = name(tree->kind);
    antlr4::Token* site = tree->STRING()->getSymbol();
    out.site = string(site);
    out.site_span = as_token(site).span;
    for (P::ProbeArgContext* each : tree->args) out.args.emplace_back(name(each->word()), base_type(each->baseType()));
    return out;
}

}  // namespace chainio::syntax
