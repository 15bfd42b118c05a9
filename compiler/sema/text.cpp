// Text rules: what a line of a text protocol looks like, and what of it is captured.
#include <algorithm>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::TextItem;
using checked::Type;
using checked::TypeKind;

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_capture(const ast::TextItem& item, std::string_view rule) {
    return item.kind == ast::TextItem::Kind::capture && item.rule.text == rule;
}

// A capture that takes all the digits, or all up to a blank, that there are: the byte behind it is none of them.
bool takes_digits(const ast::TextItem& item) { return is_capture(item, "int"); }
bool runs_to_blank(const ast::TextItem& item) {
    return is_capture(item, "word") && (item.separator.empty() || is_blank(item.separator.front()));
}

template <typename Test>
bool begins_only(const ast::TextItem& item, const Test& test) {
    const auto fits = [&](const std::string& text) { return !text.empty() && test(text.front()); };
    if (item.kind == ast::TextItem::Kind::literal) return fits(item.literal);
    return item.kind == ast::TextItem::Kind::choice && std::ranges::all_of(item.choices, fits);
}

}  // namespace

// What can never stand behind the item before it, so that nothing matches the rule.
void Checker::text_behind(const ast::TextItem& before, const ast::TextItem& item) {
    const bool digits = takes_digits(before) && (is_capture(item, "int") || begins_only(item, is_digit));
    const bool words = runs_to_blank(before) && (is_capture(item, "word") || is_capture(item, "int") ||
                                                 begins_only(item, [](char c) { return !is_blank(c); }));
    if (!digits && !words) return;
    const std::string name = "`" + before.name.text + "`";
    error(text_never, item.span,
          "nothing matches this rule: " + name +
              (digits ? " takes all digits, and this begins with one"
                      : " runs to a blank or the end of the line, and this begins with neither"),
          words && item.kind != ast::TextItem::Kind::capture ? "capture a `token`, which runs to the literal behind it"
                                                             : "put a literal such as \" \" between the two",
          {{before.span, name + " is captured here"}});
}

void Checker::resolve_text(std::uint32_t index) {
    const TextInfo& info = texts_[index];
    checked::TextRule& out = module_.texts[index];
    EnvScope there(
        *this, Env{.scope = info.scope, .site = Site::constant, .locals = &constant_locals_, .base = bindings_.size()});
    std::set<std::string_view> names;
    const ast::TextItem* open = nullptr;  // a token that the next literal must end
    const ast::TextItem* rest = nullptr;
    const ast::TextItem* before = nullptr;
    for (const auto& item : info.rule->items) {
        if (rest) {
            error(text_after_rest, item.span, "nothing can follow `rest`, which takes the remainder", "put `rest` last",
                  {{rest->span, "`rest` is here"}});
            rest = nullptr;
        }
        if (open && item.kind != ast::TextItem::Kind::literal) {
            error(text_adjacent, item.span, "nothing says where `" + open->name.text + "` ends",
                  "put a literal such as \" \" between the two",
                  {{open->span, "`" + open->name.text + "` runs to the next literal"}});
        }
        if (before) text_behind(*before, item);
        before = &item;
        open = is_capture(item, "token") ? &item : nullptr;
        if (is_capture(item, "rest")) rest = &item;
        text_item(out, item, names);
    }
    if (open)
        error(text_adjacent, open->span, "nothing says where `" + open->name.text + "` ends",
              "end the rule with a literal such as \"\\r\\n\", or capture `rest`");
    if (info.rule->items.empty() && !after_syntax_errors_)
        error(text_empty, info.rule->name.span, "text rule `" + out.name + "` is empty",
              "give it literals and captures");
}

bool Checker::text_item(checked::TextRule& out, const ast::TextItem& n, std::set<std::string_view>& names) {
    TextItem item{};
    if (n.kind == ast::TextItem::Kind::literal) {
        if (n.literal.empty()) {
            error(text_empty, n.span, "an empty literal matches nothing", "remove it");
            return false;
        }
        if (!string_fits(n.literal, n.span)) return false;
        item.kind = TextItem::Kind::literal;
        item.literals.push_back(n.literal);
        out.items.push_back(std::move(item));
        return true;
    }
    item.name = n.name.text;
    if (!names.insert(n.name.text).second)
        error(duplicate_name, n.name.span, "`" + n.name.text + "` is captured twice", "rename one of the two");
    Type type{TypeKind::bytes};
    if (n.kind == ast::TextItem::Kind::choice) {
        item.kind = TextItem::Kind::choice;
        item.literals = n.choices;
        std::set<std::string_view> seen;
        for (const auto& choice : n.choices) {
            if (!seen.insert(choice).second)
                error(duplicate_choice, n.span,
                      "choice " + std::to_string(&choice - n.choices.data() + 1) + " is one that stands before it",
                      "remove one of the two");
            if (choice.empty()) error(text_empty, n.span, "an empty choice matches everything", "remove it");
            string_fits(choice, n.span);
            type.max = std::max(type.max, static_cast<std::uint32_t>(choice.size()));
        }
        item.max = type.max;
    } else {
        static const std::vector<std::string> words{"token", "word", "int", "rest"};
        if (n.rule.text == "token")
            item.kind = TextItem::Kind::token;
        else if (n.rule.text == "word")
            item.kind = TextItem::Kind::word;
        else if (n.rule.text == "int")
            item.kind = TextItem::Kind::integer;
        else if (n.rule.text == "rest")
            item.kind = TextItem::Kind::rest;
        else {
            error(unknown_text_kind, n.rule.span, "there is no capture `" + n.rule.text + "`",
                  suggestion(n.rule.text, words, "captures are token, word, int and rest"));
            item.kind = TextItem::Kind::token;
        }
        std::uint64_t max = item.kind == TextItem::Kind::integer ? 20 : 4096;
        if (n.max) {
            if (item.kind == TextItem::Kind::integer)
                error(text_bound, n.max->span, "`int` has no bound: it is at most 20 digits", "remove `(max …)`");
            else if (auto given =
                         here_uint(*n.max, "the bound of a capture", 1, kMaxBlock, text_bound, ast::Unit::bytes))
                max = *given;
        }
        item.max = static_cast<std::uint32_t>(max);
        if (item.kind == TextItem::Kind::integer)
            type = {TypeKind::integer};
        else
            type.max = item.max;
        text_repeat_of(item, type, n);
    }
    item.capture = static_cast<std::int32_t>(out.captures.size());
    out.captures.push_back(type);
    out.capture_names.push_back(n.name.text);
    out.items.push_back(std::move(item));
    return true;
}

// `[1..16 by " "]`: the capture is an array.
void Checker::text_repeat_of(TextItem& item, Type& type, const ast::TextItem& n) {
    if (!n.repeat_low && !n.repeat_high) return;
    auto low =
        n.repeat_low ? here_uint(*n.repeat_low, "the least number of repetitions", 1, 64, text_repeat) : std::nullopt;
    auto high = n.repeat_high ? here_uint(*n.repeat_high, "the greatest number of repetitions", 1, 64, text_repeat)
                              : std::nullopt;
    if (!low || !high) return;
    if (*low > *high) {
        error(text_repeat, n.repeat_low->span,
              "at least " + std::to_string(*low) + " and at most " + std::to_string(*high) + " repetitions",
              "write the smaller number first");
        return;
    }
    if (n.separator.empty()) error(text_empty, n.span, "the separator of a repetition is empty", "write `by \" \"`");
    string_fits(n.separator, n.span);
    if (item.kind == TextItem::Kind::integer && !n.separator.empty() && n.separator[0] >= '0' &&
        n.separator[0] <= '9') {
        error(text_repeat, n.span, "the separator of repeated integers begins with a digit, which is one of theirs",
              "separate them by what is no digit: `by \" \"`");
        return;
    }
    if (item.kind == TextItem::Kind::rest) {
        error(text_after_rest, n.span, "`rest` takes the remainder, so it cannot repeat",
              "repeat a `token` or a `word`");
        return;
    }
    item.repeat_min = static_cast<std::uint32_t>(*low);
    item.repeat_max = static_cast<std::uint32_t>(*high);
    item.separator = n.separator;
    Type array{TypeKind::array};
    array.max = item.repeat_max;
    array.one_by_one = true;
    array.element = std::make_shared<Type>(type);
    type = array;
}

// The text rule that an argument or a field's type names; a service's own rules come first.
std::optional<std::uint32_t> Checker::text_named(const ast::Expr& e) {
    ast::QualifiedName name;
    if (const auto* plain = std::get_if<ast::NameRef>(&e.node)) {
        if (auto it = service_texts_.find(plain->name.text); it != service_texts_.end()) return it->second;
        name.name = plain->name;
    } else if (const auto* access = std::get_if<ast::FieldAccess>(&e.node)) {
        const auto* base = std::get_if<ast::NameRef>(&access->base->node);
        if (base) name = {base->name, access->field};
    }
    if (name.name.text.empty()) {
        error(bad_argument, e.span, "the name of a text rule is wanted here", "write `b.text(Rule)`");
        return std::nullopt;
    }
    Symbol* symbol = symbol_of(name, SymbolKind::text, unknown_text, "text rule");
    if (!symbol) return std::nullopt;
    return symbol->index;
}

Value Checker::text_match(Value data, const ast::Call& n, Span span) {
    if (!arguments(n, 1, 1, "b.text(Rule)")) return {};
    auto rule = text_named(*n.args[0].value);
    if (!rule) return {};
    if (data.place != Place::block) {
        error(text_place, span, "a text rule is matched on bytes of the block, and these are not",
              "match where the bytes were read");
        return {};
    }
    Type type{TypeKind::text};
    type.record = *rule;
    type.optional = true;
    Value out = make(ExprKind::text_match, type, span);
    out.expr->kids.push_back(std::move(data.expr));
    return out;
}

}  // namespace chainio::sema
