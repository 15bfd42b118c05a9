// Reporting, and the names that are visible inside chains, records, functions and lambdas.
#include <algorithm>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;

void Checker::error(Code code, Span span, std::string message, std::string hint, std::vector<diag::Note> notes) {
    failed_ = true;
    for (auto it = call_notes_.rbegin(); it != call_notes_.rend() && notes.size() < 4; ++it) notes.push_back(*it);
    note_given(span, notes);
    note_defines(span, notes);
    diags_.report(code, span, std::move(message), std::move(hint), std::move(notes));
}

// A library has no error of its own: what an import gives it is the likely cause of one that shows inside it.
void Checker::note_given(Span span, std::vector<diag::Note>& notes) const {
    const auto is_there = [&](const Instance& i) { return i.file && i.file->id == span.file; };
    const auto found = std::ranges::find_if(instances_, is_there);
    if (found == instances_.end()) return;
    const bool knows = env_.scope && is_there(*env_.scope);  // which import of the file, when there are several
    for (const Instance* at = knows ? env_.scope : &*found; at; at = at->importer) {
        for (const auto& [name, given] : at->given) {
            if (notes.size() >= 4) return;
            const auto symbol = at->names.find(name);
            const bool is_constant = symbol != at->names.end() && symbol->second->kind == SymbolKind::constant;
            if (is_constant && given.value && given.span.file != 0)
                notes.push_back({given.span, "`" + name + "` is given here"});
        }
    }
}

// What -D gave to the expression that the error is about: nothing at its place says so. A function's body is a part of
// the expression that calls it.
void Checker::note_defines(Span span, std::vector<diag::Note>& notes) const {
    const auto before = [](const Span& a, const Span& b) {
        return std::pair(a.end_line, a.end_col) < std::pair(b.line, b.col);
    };
    const Span &there = expression_span_, &here = call_notes_.empty() ? span : call_notes_.front().span;
    if (here.file != there.file || before(here, there) || before(there, here)) return;
    for (std::string_view name : defines_read_) {
        const auto given = options_.defines.find(std::string(name));
        if (notes.size() >= 4 || given == options_.defines.end()) return;
        notes.push_back({{}, "`" + given->first + "` is given by -D " + given->first + "=" + given->second.text});
    }
}

void Checker::begin_expression(Span span) {
    defines_read_.clear();
    expression_span_ = span;
}

void Checker::reads_defines(const std::vector<std::string_view>& names) {
    for (std::string_view name : names)
        if (std::ranges::find(defines_read_, name) == defines_read_.end()) defines_read_.push_back(name);
}

// Only what the user is compiling is worth a warning; a library's own leftovers are not theirs to mend.
void Checker::warn(Code code, Span span, std::string message, std::string hint, std::vector<diag::Note> notes) {
    if (in_root(span)) warnings_.push_back({code, span, std::move(message), std::move(hint), std::move(notes)});
}

std::string Checker::suggestion(std::string_view word, const std::vector<std::string>& candidates,
                                std::string otherwise) const {
    if (unseen()) return otherwise;
    if (auto near = diag::nearest(word, candidates)) return "did you mean `" + *near + "`?";
    return otherwise;
}

// "its fields are: a, b, c"; at most ten of them.
std::string Checker::listed(const char* before, std::vector<std::string> names) {
    std::ranges::sort(names);
    std::string out = before;
    for (std::size_t i = 0; i < names.size() && i < 10; i++) out += (i == 0 ? " " : ", ") + names[i];
    if (names.size() > 10) out += ", …";
    return names.empty() ? "it has none" : out;
}

Binding* Checker::lookup(std::string_view name) {
    auto it = innermost_.find(name);
    std::int32_t at = it == innermost_.end() ? -1 : it->second;
    while (at >= 0 && static_cast<std::size_t>(at) >= env_.hidden_from && static_cast<std::size_t>(at) < env_.hidden_to)
        at = bindings_[static_cast<std::size_t>(at)].previous;
    if (at < 0 || static_cast<std::size_t>(at) < env_.base) return nullptr;
    return &bindings_[static_cast<std::size_t>(at)];
}

std::vector<std::string> Checker::visible_names() {
    std::vector<std::string> out;
    if (unseen()) return out;
    for (std::size_t i = env_.base; i < bindings_.size(); i++)
        if (i < env_.hidden_from || i >= env_.hidden_to) out.emplace_back(bindings_[i].name);
    if (env_.scope) {
        for (const auto& [name, symbol] : env_.scope->names)
            if (symbol->kind == SymbolKind::constant || symbol->kind == SymbolKind::module) out.emplace_back(name);
        for (const auto& [name, choice] : env_.scope->choices) out.emplace_back(name);
    }
    return out;
}

bool Checker::bind(Binding binding) {
    bool fresh = true;
    if (Binding* old = lookup(binding.name); old && binding.name != "_") {
        error(hidden_name, binding.span, "`" + std::string(binding.name) + "` is already a name here",
              "give the new one another name", {{old->span, "the first one is here"}});
        old->used = true;
        fresh = false;
    }
    auto [it, inserted] = innermost_.try_emplace(binding.name, -1);
    if (env_.chain && env_.site == Site::step && call_notes_.empty())
        env_.chain->step_names.insert_or_assign(binding.name,
                                                ChainScope::StepName{env_.chain->step_ends.size(), binding.span});
    binding.previous = it->second;
    it->second = static_cast<std::int32_t>(bindings_.size());
    bindings_.push_back(std::move(binding));
    return fresh;
}

void Checker::bind_error(const ast::Name& name) {
    Binding b;
    b.name = name.text;
    b.span = name.span;
    b.used = true;
    bind(std::move(b));
}

void Checker::pop_bindings(std::size_t mark) {
    while (bindings_.size() > mark) {
        Binding& b = bindings_.back();
        innermost_[b.name] = b.previous;
        if (b.unused_code != 0 && !b.used && !b.name.starts_with('_')) {
            const bool is_parameter = b.unused_code == unused_parameter;
            warn(static_cast<Code>(b.unused_code), b.span,
                 std::string(is_parameter ? "parameter `" : "`") + std::string(b.name) + "` is never used",
                 b.has_else ? "remove it; or, where only its `else` matters, call it `_" + std::string(b.name) + "`"
                            : "remove it, or begin its name with `_`");
        }
        bindings_.pop_back();
    }
}

std::uint32_t Checker::new_local(std::string_view name, const checked::Type& type, bool is_mutable) {
    env_.locals->push_back({std::string(name), type, is_mutable});
    return static_cast<std::uint32_t>(env_.locals->size() - 1);
}

Value Checker::local_value(std::uint32_t local, const Value& like, Span span) {
    Value out = make(ExprKind::local, like.expr->type, span);
    out.expr->type.optional = false;
    out.expr->index = local;
    out.unit = like.unit;
    out.place = like.place;
    out.exact = like.exact;
    out.facts = like.facts;
    out.chosen = like.chosen && !(*env_.locals)[local].is_mutable;
    return out;
}

// A name for `v` that may be used more than once: itself when that costs nothing, else a local; `wrap_first` receives
// what the local is to be set to.
Value Checker::name_local(Value v, std::string_view name, checked::ExprPtr* wrap_first) {
    switch (v.expr->kind) {
        case ExprKind::int_const:
        case ExprKind::bool_const:
        case ExprKind::bytes_const:
        case ExprKind::local:
        case ExprKind::param:
        case ExprKind::state:
        case ExprKind::header_field:
        case ExprKind::block_offset:
        case ExprKind::block_length:
        case ExprKind::block_tag:
        case ExprKind::block_bytes: return v;
        default: break;
    }
    std::uint32_t local = new_local(name, v.expr->type, false);
    Value out = local_value(local, v, v.expr->span);
    *wrap_first = std::move(v.expr);
    return out;
}

Value Checker::make(ExprKind kind, checked::Type type, Span span) {
    Value out;
    out.expr = std::make_unique<checked::Expr>();
    out.expr->kind = kind;
    out.expr->type = std::move(type);
    out.expr->span = span;
    return out;
}

Value Checker::int_constant(std::uint64_t v, Span span) {
    Value out = make(ExprKind::int_const, {checked::TypeKind::integer}, span);
    out.expr->value = v;
    return out;
}

Value Checker::bool_constant(bool v, Span span) {
    Value out = make(ExprKind::bool_const, {checked::TypeKind::boolean}, span);
    out.expr->value = v ? 1 : 0;
    return out;
}

Value Checker::bytes_constant(std::string text, Span span) {
    checked::Type type{checked::TypeKind::bytes};
    type.max = static_cast<std::uint32_t>(text.size());
    Value out = make(ExprKind::bytes_const, type, span);
    out.exact = type.max;
    out.place = Place::literal;
    out.expr->bytes = std::move(text);
    return out;
}

}  // namespace chainio::sema
