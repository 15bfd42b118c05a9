#include <algorithm>

#include "compiler/syntax/characters.h"
#include "compiler/syntax/codes.h"
#include "compiler/syntax/literals.h"
#include "compiler/syntax/repair.h"
#include "compiler/syntax/yaml_read.h"

namespace chainio::syntax {
namespace {

std::string listed(std::initializer_list<std::string_view> words) {
    std::string out;
    for (const std::string_view word : words) out += (out.empty() ? "" : ", ") + std::string(word);
    return out;
}

// Whether `key` is one of `keys`; a key that ends with `*` stands for all that begin so.
bool allowed(std::string_view key, std::initializer_list<std::string_view> keys) {
    return std::any_of(keys.begin(), keys.end(), [&](std::string_view each) {
        return each.ends_with('*') ? key.starts_with(each.substr(0, each.size() - 1)) : each == key;
    });
}

bool is_identifier(std::string_view text) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    if (text.empty() || !letter(text.front())) return false;
    return std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Span span_of_text(const YamlNode& node) {
    if (node.places.empty()) return node.span;
    Span out = node.span;
    out.line = node.places.front().line;
    out.col = node.places.front().col;
    return out;
}

}  // namespace

ast::ExprPtr YamlReader::unreadable(Span span) { return std::make_unique<ast::Expr>(span, ast::NameRef{}, false); }

bool YamlReader::scalar(const Node& node, std::string_view what) {
    if (node.kind == Node::Kind::scalar && !node.null) return true;
    if (node.span.line == 0 || node.refused) return false;  // a missing key or an alias, reported already
    diags_.report(code::yaml_wrong_kind, node.span, "expected " + std::string(what) + " as a text",
                  "write it on the line of its key");
    return false;
}

ast::ExprPtr YamlReader::expr(const Node* node) {
    if (node == nullptr) return nullptr;
    ast::ExprPtr out;
    if (scalar(*node, "an expression")) {
        fragment(*node, [&](Reader& reader, Builder& builder) {
            if (auto* tree = reader.read_one(&P::expr)) out = builder.expr(tree);
        });
    }
    return out ? std::move(out) : unreadable(node->span);
}

ast::Name YamlReader::name(const Node& node) {
    if (!scalar(node, "a name")) return {"", node.span};
    if (is_identifier(node.text) && word_type(node.text) == P::IDENT) return {node.text, span_of_text(node)};
    ast::Name out{"", node.span};
    fragment(node, [&](Reader& reader, Builder& builder) {
        if (auto* tree = reader.read_one(&P::word)) out = builder.name(tree);
    });
    return out;
}

// Of what stands in statements: a word that begins one is none.
ast::Name YamlReader::local_name(const Node& node) {
    if (!scalar(node, "a name")) return {"", node.span};
    ast::Name out{"", node.span};
    fragment(node, [&](Reader& reader, Builder& builder) {
        if (auto* tree = reader.read_one(&P::localWord)) out = builder.name(tree);
    });
    return out;
}

std::optional<ast::Name> YamlReader::optional_name(const Node* node) {
    if (node == nullptr) return std::nullopt;
    return name(*node);
}

ast::QualifiedName YamlReader::qualified(const Node& node) {
    ast::QualifiedName out{{}, {"", node.span}};
    if (!scalar(node, "a name")) return out;
    fragment(node, [&](Reader& reader, Builder& builder) {
        if (auto* tree = reader.read_one(&P::qualified)) out = builder.qualified(tree);
    });
    return out;
}

// A text that begins with `"` is a string literal of the language, any other stands for itself.
std::string YamlReader::string(const Node& node) {
    if (!scalar(node, "a string")) return {};
    if (!node.text.starts_with('"')) return node.text;
    std::string out;
    fragment(node, [&](Reader& reader, Builder&) {
        const std::vector<SyntaxToken>& tokens = reader.tokens();
        if (tokens.size() == 2) {
            out = read_string(tokens[0].text, tokens[0].span, diags_);
        } else {
            diags_.report(code::unexpected, node.span, "expected one string literal",
                          "a text that begins with `\"` is a string of the language: \"a\\n\"");
            out = node.text;  // an empty string would be a mistake of its own
        }
    });
    return out;
}

ast::Type YamlReader::base_type(const Node& node) {
    ast::Type out;
    out.span = node.span;
    out.base = ast::NamedType{{{}, {"", node.span}}};
    if (!scalar(node, "a type")) return out;
    fragment(node, [&](Reader& reader, Builder& builder) {
        if (auto* tree = reader.read_one(&P::baseType)) out = builder.base_type(tree);
    });
    return out;
}

bool YamlReader::flag(const Node* node) {
    if (node == nullptr || !scalar(*node, "`true` or `false`")) return false;
    if (node->text != "true" && node->text != "false") {
        diags_.report(code::yaml_wrong_kind, node->span, "expected `true` or `false`, found " + in_ticks(node->text),
                      "write `true`, or remove the key");
    }
    return node->text == "true";
}

const std::vector<YamlNode>& YamlReader::list(const Node* node, std::string_view what) {
    static const std::vector<Node> none;
    if (node == nullptr || node->null) return none;
    if (node->kind == Node::Kind::list) return node->items;
    diags_.report(code::yaml_wrong_kind, node->span, "expected a list of " + std::string(what),
                  "begin each entry with `- `");
    return none;
}

// The pairs of a mapping, or of a list of mappings with one pair each.
std::vector<const YamlReader::Pair*> YamlReader::pairs(const Node* node, std::string_view what) {
    std::vector<const Pair*> out;
    if (node == nullptr || node->null) return out;
    if (node->kind == Node::Kind::map) {
        for (const Pair& each : node->pairs) out.push_back(&each);
    } else if (node->kind == Node::Kind::list) {
        for (const Node& each : node->items) {
            if (const Pair* pair = single(each, what)) out.push_back(pair);
        }
    } else {
        diags_.report(code::yaml_wrong_kind, node->span, "expected a mapping of " + std::string(what),
                      "write `name: value` lines");
    }
    return out;
}

const YamlReader::Pair* YamlReader::single(const Node& node, std::string_view what) {
    if (node.kind == Node::Kind::map && node.pairs.size() == 1) return &node.pairs.front();
    diags_.report(code::yaml_wrong_kind, node.span, "expected " + std::string(what) + " as `name: value`",
                  "write one pair for each entry of the list");
    return nullptr;
}

bool YamlReader::map(const Node& node, std::string_view what, Keys keys) {
    if (node.kind != Node::Kind::map) {
        diags_.report(code::yaml_wrong_kind, node.span, "expected " + std::string(what) + " as a mapping",
                      "its keys are " + listed(keys));
        return false;
    }
    std::vector<std::string_view> seen;
    for (const auto& [key, value] : node.pairs) {
        if (std::find(seen.begin(), seen.end(), key.text) != seen.end()) {
            diags_.report(code::yaml_duplicate_key, key.span, "the key " + in_ticks(key.text) + " is given twice",
                          "keep one of them");
        } else if (!allowed(key.text, keys)) {
            const auto near = diag::nearest(key.text, std::vector<std::string>(keys.begin(), keys.end()));
            diags_.report(code::yaml_unknown_key, key.span,
                          in_ticks(key.text) + " is not a key of " + std::string(what),
                          near ? "did you mean " + in_ticks(*near) + "?" : "its keys are " + listed(keys));
        }
        seen.push_back(key.text);
    }
    return true;
}

// The .chain form has one place for what the two keys say.
void YamlReader::one_of(const Node& node, std::string_view what, std::string_view key, std::string_view other) {
    const Pair *first = find_pair(node, key), *second = find_pair(node, other);
    if (first == nullptr || second == nullptr) return;
    if (first > second) std::swap(first, second);
    diags_.report(code::yaml_duplicate_key, second->first.span,
                  std::string(what) + " has " + in_ticks(key) + " or " + in_ticks(other) + ", and this one has both",
                  "keep one of them");
}

const YamlNode* YamlReader::find(const Node& map, std::string_view key) {
    const Pair* pair = find_pair(map, key);
    return pair == nullptr ? nullptr : &pair->second;
}

const YamlReader::Pair* YamlReader::find_pair(const Node& map, std::string_view key) {
    for (const Pair& each : map.pairs) {
        if (each.first.kind == Node::Kind::scalar && each.first.text == key) return &each;
    }
    return nullptr;
}

const YamlNode& YamlReader::need(const Node& map, std::string_view key) {
    static const Node missing = [] {
        Node node;
        node.null = true;
        return node;
    }();
    if (const Node* found = find(map, key)) return *found;
    const Span at = map.pairs.empty() ? map.span : map.pairs.front().first.span;
    diags_.report(code::yaml_missing_key, at, "the key " + in_ticks(key) + " is missing",
                  "add `" + std::string(key) + ": …`");
    return missing;
}

// Which of the constructs a mapping is: the first one of `constructs` that it has as a key. Empty when it has none.
std::string_view YamlReader::construct(const Node& node, Keys constructs, std::string_view what) {
    if (node.kind != Node::Kind::map || node.pairs.empty()) {
        diags_.report(code::yaml_wrong_kind, node.span, "expected " + std::string(what) + " as a mapping",
                      "it has one of the keys " + listed(constructs));
        return {};
    }
    for (const std::string_view each : constructs) {
        if (find(node, each) != nullptr) return each;
    }
    const Node& first = node.pairs.front().first;
    const auto near = diag::nearest(first.text, std::vector<std::string>(constructs.begin(), constructs.end()));
    diags_.report(code::yaml_no_construct, first.span, "this is not " + std::string(what),
                  near ? "did you mean " + in_ticks(*near) + "?" : "it has one of the keys " + listed(constructs));
    return {};
}

// The comments in an entry's texts that no statement there has taken; `since`: what was there when the entry began.
void YamlReader::take_inside(std::size_t since, ast::Comments& to) {
    const auto first = inside_.begin() + static_cast<std::ptrdiff_t>(since);
    to.leading.insert(to.leading.end(), first, inside_.end());
    inside_.erase(first, inside_.end());
}

void YamlReader::begin(ast::Comments& to, const Node& node) {
    // An empty line above the line on which the entry begins.
    std::size_t start = text_.rfind('\n', node.offset == 0 ? 0 : node.offset - 1);
    bool blank = false;
    while (start != std::string_view::npos && start > 0) {
        const char before = text_[start - 1];
        if (before == '\n') blank = true;
        if (before != ' ' && before != '\t' && before != '\r') break;
        --start;
    }
    comments_.take_leading(node.offset, blank, to);
    const Node* first = &node;
    while (first->kind == Node::Kind::map && !first->pairs.empty()) first = &first->pairs.front().first;
    const bool text = node.kind == Node::Kind::scalar;
    comments_.take_line_end(node.offset, text ? node.span.end_line : first->span.line, to);
}

}  // namespace chainio::syntax
