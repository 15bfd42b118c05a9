// Expressions: dispatch, literals, names, and what may stand where a value is wanted.
#include "compiler/ir/visit.h"
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::Type;
using checked::TypeKind;

std::string Checker::describe(const Type& type) const {
    if (type.kind == TypeKind::view) return "a view of `" + module_.records[type.record].name + "`";
    if (type.kind == TypeKind::text) return "the captures of `" + module_.texts[type.record].name + "`";
    if (type.kind == TypeKind::array && type.element && type.element->kind == TypeKind::view)
        return "an array of `" + module_.records[type.element->record].name + "`";
    return type_name(type);
}

// As `describe`, but an integer by what it counts rather than by its width.
std::string Checker::article(const Value& v) const {
    if (v.expr->type.kind == TypeKind::integer) {
        if (v.unit == ast::Unit::time) return "a time";
        if (v.unit == ast::Unit::bytes) return "a size";
        return "an integer";
    }
    if (v.expr->type.kind == TypeKind::boolean) return "a bool";
    return describe(v.expr->type);
}

Value Checker::any(const ast::Expr& e) {
    if (levels_ == 0) begin_expression(e.span);
    const Level level(levels_);
    return std::visit(ir::Overloaded{
                          [&](const ast::IntLit& n) { return literal(e, n); },
                          [&](const ast::StringLit& n) {
                              return string_fits(n.value, e.span) ? bytes_constant(n.value, e.span) : Value{};
                          },
                          [&](const ast::BoolLit& n) { return bool_constant(n.value, e.span); },
                          [&](const ast::BlockLit&) { return need_block(e.span) ? block_bytes(e.span) : Value{}; },
                          [&](const ast::NameRef& n) { return name_value(e, n.name); },
                          [&](const ast::Call& n) { return call(e, n); },
                          [&](const ast::FieldAccess& n) { return field_access(e, n); },
                          [&](const ast::Index& n) { return index_access(e, n); },
                          [&](const ast::Slice& n) { return slice_access(e, n); },
                          [&](const ast::Unary& n) { return unary(e, n); },
                          [&](const ast::Binary& n) { return binary(e, n); },
                          [&](const ast::Cond& n) { return conditional(e, n); },
                          [&](const ast::InSet& n) { return in_set(e, n); },
                          [&](const ast::Cast& n) { return cast(e, n); },
                      },
                      e.node);
}

// No run of bytes that a program works on is longer than a block.
bool Checker::string_fits(std::string_view text, Span span) {
    if (text.size() <= kMaxBlock) return true;
    error(out_of_range, span, "a string of " + std::to_string(text.size()) + " bytes",
          "a string has at most " + std::to_string(kMaxBlock) + " bytes");
    return false;
}

bool Checker::is_sequence(const Value& v) const {
    return v.expr->kind == ExprKind::pipeline || v.expr->kind == ExprKind::bytes_records ||
           v.expr->kind == ExprKind::bytes_split;
}

// Records, functions and what stands outside of steps have no statements that could take it.
const char* Checker::absent_hint() const {
    if (!call_notes_.empty())
        return "a function can give it back as its value: take it where it is called, with `let x = … else …`";
    if (env_.site == Site::record || env_.site == Site::signature || env_.site == Site::constant)
        return "a step takes it, with `let x = … else …`, or with `when … as x { … }`";
    return "take it with `let x = … else …`, or with `when … as x { … }`";
}

Value Checker::value(const ast::Expr& e) {
    Value v = any(e);
    if (!v) return v;
    if (v.expr->type.optional) {
        error(optional_unused, e.span, "this value may be absent", absent_hint());
        return {};
    }
    if (is_sequence(v)) {
        error(pipeline_misused, e.span,
              v.expr->type.element->kind == TypeKind::bytes ? "this is a sequence of bytes, not a value"
                                                            : "this is a sequence of records, not a value",
              "loop over it with `for`, or end it with `.sum(…)`, `.count()`, `.min(…)`, `.max(…)` or `.project(…)`");
        return {};
    }
    return v;
}

Value Checker::wrong(const Value& v, Span span, const std::string& wanted, const std::string& what,
                     const std::string& hint) {
    std::string advice = hint;
    if (advice.empty()) {
        const TypeKind kind = v.expr->type.kind;
        if (wanted == "a bool" && kind == TypeKind::integer)
            advice = "compare it: `… != 0`";
        else if (wanted == "an integer" && kind == TypeKind::boolean)
            advice = "choose a number: `… ? 1 : 0`";
        else if (wanted == "an integer" && kind == TypeKind::bytes)
            advice = "read a number from the bytes: `.uint_be()`, `.uint_le()` or `.decimal()`";
        else if (wanted == "bytes" && kind == TypeKind::integer && what == "the result")
            advice = "`emit` appends an integer's bytes to the result: write it in the place of `return`";
        else if (kind == TypeKind::view)
            advice = "name a field of the record";
        else if (kind == TypeKind::array && wanted == "bytes")
            advice = "declare the field as bytes: `NAME: bytes(COUNT)`; or take an element, `[i]`";
        else if (kind == TypeKind::array)
            advice = "take an element: `[i]`, or `.count()`";
        else if (kind == TypeKind::text)
            advice = "name a capture of the text rule";
        else
            advice = "give " + wanted;
    }
    error(type_mismatch, span, what + " is " + wanted + ", and this is " + article(v), std::move(advice));
    return {};
}

Value Checker::integer(const ast::Expr& e, const std::string& what) {
    Value v = value(e);
    if (v && v.expr->type.kind != TypeKind::integer) return wrong(v, e.span, "an integer", what);
    return v;
}

Value Checker::boolean(const ast::Expr& e, const std::string& what) {
    Value v = value(e);
    if (v && v.expr->type.kind != TypeKind::boolean) {
        error(condition_not_bool, e.span, what + " is a bool, and this is " + article(v),
              v.expr->type.kind == TypeKind::integer ? "compare it: `… != 0`" : "write a comparison");
        return {};
    }
    return v;
}

Value Checker::bytes(const ast::Expr& e, const std::string& what) {
    Value v = value(e);
    if (v && v.expr->type.kind != TypeKind::bytes) return wrong(v, e.span, "bytes", what);
    return v;
}

Value Checker::unsigned_integer(const ast::Expr& e, const std::string& what) {
    Value v = integer(e, what);
    if (!v) return v;
    if (v.flexible && !v.expr->type.is_signed) v.flexible = false;
    if (v.expr->type.is_signed) {
        const bool negative = v.expr->kind == ExprKind::int_const && static_cast<std::int64_t>(v.expr->value) < 0;
        error(mixed_signedness, e.span, what + " is unsigned, and this is " + (negative ? "negative" : "signed"),
              negative ? "give a value from 0 on" : "convert it: `(…) as u64`");
        return {};
    }
    return v;
}

// A size is a count of bytes, and a number of elements may be computed from one; a time is never how many of something.
Value Checker::count_value(const ast::Expr& e, const std::string& what) {
    Value v = unsigned_integer(e, what);
    if (v && v.unit == ast::Unit::time) {
        error(unit_mismatch, e.span, what + " is a plain number, and this is a time", "leave the unit out");
        return {};
    }
    return v;
}

Value Checker::offset_value(const ast::Expr& e, const std::string& what) {
    Value v = unsigned_integer(e, what);
    if (v && v.unit == ast::Unit::time) {
        error(unit_mismatch, e.span, what + " is a size, and this is a time", "give a number of bytes such as `4KiB`");
        return {};
    }
    return v;
}

// The value becomes one of `type`: constants are checked against it, other integers keep the low bits.
bool Checker::store_as(Value& v, const Type& type, Span span, const std::string& what) {
    if (!v) return false;
    if (v.expr->type.kind != type.kind) {
        wrong(v, span,
              type.kind == TypeKind::integer   ? "an integer"
              : type.kind == TypeKind::boolean ? "a bool"
                                               : "bytes",
              what);
        return false;
    }
    if (type.kind == TypeKind::bytes) {
        if (v.exact && *v.exact > type.max) {
            error(length_mismatch, span,
                  what + " holds at most " + std::to_string(type.max) + " bytes, and these are " +
                      std::to_string(*v.exact),
                  "give it room: bytes(max " + std::to_string(*v.exact) + ")");
            return false;
        }
        return true;
    }
    if (type.kind != TypeKind::integer) return true;
    meet(v, type);
    if (v.expr->kind == ExprKind::int_const && (v.flexible || v.expr->type.is_signed == type.is_signed)) {
        if (!fits(v, type, span, what)) return false;
        v.flexible = false;
        v.expr->type = type;
        return true;
    }
    if (v.flexible && !adapt(v, type.is_signed)) return false;
    if (v.expr->type.is_signed != type.is_signed) {
        error(mixed_signedness, span,
              what + " is " + describe(type) + ", and this is " + (v.expr->type.is_signed ? "signed" : "unsigned"),
              "convert it: `(…) as " + describe(type) + "`");
        return false;
    }
    if (v.expr->type.bits <= type.bits) return true;
    Value narrow = make(ExprKind::cast, type, v.expr->span);
    narrow.expr->kids.push_back(std::move(v.expr));
    narrow.unit = v.unit;
    v = std::move(narrow);
    return true;
}

Value Checker::literal(const ast::Expr& e, const ast::IntLit& n) {
    Value v = int_constant(n.value, e.span);
    v.flexible = true;
    v.unit = n.unit;
    return v;
}

// How what other languages name so is written here.
std::optional<std::string> foreign_word_hint(const std::string& name) {
    if (name == "not") return "`not` is written `!`: `!(a == b)`";
    if (parse_scalar(name)) return "a cast stands behind its value: `x as " + name + "`";
    if (name == ir::kFileSizeName) return "it is a member of a file: `db.file_size`";
    return std::nullopt;
}

Value Checker::unknown(const ast::Name& name) {
    failed_ = true;
    if (name.text.empty() || (env_.scope && env_.scope->is_broken(name.text))) return {};
    if (diags_.reported_at(name.span)) return {};  // by the front end, as for its letters
    if (env_.record && env_.record->fields) {
        for (const auto& field : *env_.record->fields) {
            if (field.name.text != name.text) continue;
            error(field_before_use, name.span, "field `" + name.text + "` stands further down",
                  "an expression in a record uses the fields before it: move `" + name.text + "` up",
                  {{field.name.span, "it is declared here"}});
            return {};
        }
    }
    if (name.text == "request" && env_.site == Site::handler && !env_.request) {
        error(unknown_name, name.span, "there is no `request` here",
              "`on malformed` and `on failure` answer without it: what has come may be no request");
        return {};
    }
    if (env_.site == Site::step && (name.text == "offset" || name.text == "length" || name.text == "tag")) {
        error(unknown_name, name.span, "there is no `" + name.text + "` here", "write `block." + name.text + "`");
        return {};
    }
    if (env_.chain && call_notes_.empty() && is_of_other_step(*env_.chain, name)) return {};
    error(unknown_name, name.span, "there is no `" + name.text + "` here",
          suggestion(name.text, visible_names(),
                     foreign_word_hint(name.text).value_or("declare it with `let`, or check its spelling")));
    return {};
}

std::optional<Wide> Checker::choice_number(const Choice& choice, Span use) {
    if (!choice.constant) return choice.number;
    const Value v = constant(*choice.constant, use);
    if (v && v.expr->type.kind == TypeKind::integer) return exact(v);
    failed_ = true;  // which its record reports
    return std::nullopt;
}

// A name that a record's `in { … }` gave to a value.
Value Checker::choice_value(Instance& scope, const ast::Name& name, bool* found) {
    const auto it = scope.choices.find(name.text);
    *found = it != scope.choices.end();
    if (!*found) return {};
    const Choice& first = it->second.front();
    const auto number = choice_number(first, name.span);
    if (!number) return {};
    for (const Choice& other : it->second) {
        const auto another = choice_number(other, name.span);
        if (!another) return {};
        if (*another == *number) continue;
        error(ambiguous_choice, name.span,
              "`" + name.text + "` is a value of " + std::string(first.record) + " and another one of " +
                  std::string(other.record),
              "say which: `" + std::string(first.record) + "." + name.text + "`");
        return {};
    }
    if (Symbol* record = find(scope, first.record)) record->used = true;
    first.owner->serves = true;
    return exact_constant(*number, name.span, ast::Unit::none);
}

// Fields of the request may be written without `request.`
bool Checker::is_request_field(const ast::Name& name) const {
    if (!env_.request || env_.base != 0) return false;
    return std::ranges::any_of(*env_.request->fields, [&](const auto& field) { return field.name.text == name.text; });
}

Value Checker::name_value(const ast::Expr& e, const ast::Name& name) {
    if (name.text.empty()) {
        failed_ = true;
        return {};
    }
    if (Binding* b = lookup(name.text)) {
        b->used = true;
        switch (b->kind) {
            case Binding::Kind::value: {
                Value v = clone(b->value);
                if (v) v.expr->span = e.span;
                return v;
            }
            case Binding::Kind::error: failed_ = true; return {};
            case Binding::Kind::file:
                error(wrong_kind, e.span, "`" + name.text + "` is a file, not a value",
                      "name a field of its header: `" + name.text + ".field`");
                return {};
            case Binding::Kind::event_file:
                error(wrong_kind, e.span, "`" + name.text + "` is a file, not a value",
                      "use it as the target of `prefetch`");
                return {};
            case Binding::Kind::event: return need_block(e.span) ? block_bytes(e.span) : Value{};
            case Binding::Kind::request:
                error(wrong_kind, e.span, "`request` is the whole request", "name one of its fields: `request.field`");
                return {};
            case Binding::Kind::datagram:
                error(wrong_kind, e.span, "`datagram` is a datagram of the reply", "it has number and count");
                return {};
        }
    }
    if (is_request_field(name)) return request_field(name, e.span);
    if (!env_.scope) return unknown(name);
    if (Symbol* symbol = find(*env_.scope, name.text)) return symbol_value(*symbol, e.span);
    bool found = false;
    Value v = choice_value(*env_.scope, name, &found);
    return found ? std::move(v) : unknown(name);
}

Value Checker::symbol_value(Symbol& symbol, Span span) {
    symbol.used = true;
    if (symbol.kind == SymbolKind::constant) {
        Value v = constant(symbol.index, span);
        if (v)
            v.expr->span = span;
        else
            failed_ = true;
        return v;
    }
    static const std::pair<SymbolKind, std::pair<const char*, const char*>> words[] = {
        {SymbolKind::files, {"a file class", "a chain reads a file through its parameter: `file NAME`"}},
        {SymbolKind::socket, {"a socket", "use it in `on ready(…)`"}},
        {SymbolKind::record, {"a record", "make a view of it: `offset.as(NAME)`"}},
        {SymbolKind::text, {"a text rule", "match bytes with it: `b.text(NAME)`"}},
        {SymbolKind::fn, {"a function", "call it: `NAME(…)`"}},
        {SymbolKind::chain, {"a chain", "call it from a service, or with `prefetch via`"}},
        {SymbolKind::service, {"a service", "a service has no value"}},
        {SymbolKind::probe, {"a probe", "use it in `on probe(…)`"}},
        {SymbolKind::module, {"an import", "name something in it: `NAME.thing`"}},
    };
    for (const auto& [kind, word] : words) {
        if (kind != symbol.kind) continue;
        std::string hint = word.second;
        if (auto at = hint.find("NAME"); at != std::string::npos) hint.replace(at, 4, symbol.name);
        error(wrong_kind, span, "`" + std::string(symbol.name) + "` is " + word.first + ", not a value",
              std::move(hint));
    }
    return {};
}

// `e`, where a bare name may be one of the names of another value's choices: `kind == leaf`.
Value Checker::near_choices(const ast::Expr& e, const FieldFacts* facts) {
    const auto* name = std::get_if<ast::NameRef>(&e.node);
    if (!facts || !name || lookup(name->name.text)) return value(e);
    for (const auto& [word, number] : facts->choices) {
        if (word == name->name.text) return exact_constant(number, e.span, ast::Unit::none);
    }
    return value(e);
}

}  // namespace chainio::sema
