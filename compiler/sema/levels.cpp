// How deep expressions go, through everything that they name: the bound on every recursion along them. A single
// expression's own depth is bounded by the parser.
#include <algorithm>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::Field;
using checked::TypeKind;

// Whether `what` would be looked into from too deep. That is said once, where it is met first: what is refused there is
// wanted by everything on the way to it.
bool Checker::too_deep(std::uint32_t levels, const std::string& what, Span use, Span declared, const char* hint) {
    if (levels <= kMaxLevels) return false;
    failed_ = true;
    if (levels_reported_) return true;
    levels_reported_ = true;
    std::vector<diag::Note> notes;
    if (declared.file != 0) notes.push_back({declared, "it is declared here"});
    error(named_too_deep, use,
          what + " is reached through more than " + std::to_string(kMaxLevels) + " levels of expressions", hint,
          std::move(notes));
    return true;
}

// Of an expression of the record `self`, or of another one's when a view of that is made here.
std::uint32_t Checker::levels(const checked::Expr& e, const RecordInfo& self) const {
    std::uint32_t below = 0;
    if (e.kind == ExprKind::field && e.kids[0]->type.kind == TypeKind::view) {
        const RecordInfo& of = records_[e.kids[0]->type.record];
        if (e.index < of.infos.size()) below = of.infos[e.index].levels;
    } else if (e.type.kind == TypeKind::view && &records_[e.type.record] != &self) {
        below = records_[e.type.record].levels;
    }
    const auto look = [&](const checked::ExprPtr& part) {
        if (part) below = std::max(below, levels(*part, self));
    };
    for (const auto& kid : e.kids) look(kid);
    if (e.body) look(e.body->body);
    for (const auto& filter : e.filters) look(filter.body);
    return e.kind == ExprKind::local ? below : below + 1;
}

// A field whose place is not known needs to know where the one before it ends. These are looked for one after the
// other, so the number of fields adds nothing.
void Checker::field_levels(const Field& field, FieldInfo& facts, const RecordInfo& info) const {
    const std::uint32_t before = info.infos.empty() ? 0 : info.infos.back().levels_to_end;
    const auto of = [&](const checked::ExprPtr& e) { return e ? levels(*e, info) : 0; };
    // `_: at e` is compared with where the field before it ends, unless that is never behind e.
    const bool computed = is_gap(field) && field.at && field.at->kind != ExprKind::int_const;
    const bool follows = field.fixed_offset < 0 && (!field.at || computed || field.compared);
    const std::uint32_t place = std::max(follows ? before : 0, of(field.at));
    facts.levels = std::max({place, of(field.length), of(field.count), of(field.when), of(field.value)});
    const checked::Type* element = field.kind == Field::Kind::array ? field.type.element.get() : &field.type;
    const bool of_records = field.kind != Field::Kind::derived && element && element->kind == TypeKind::view;
    if (of_records) facts.levels = std::max(facts.levels, records_[element->record].levels + 2);
    facts.levels_to_end = field.kind == Field::Kind::derived ? before : facts.levels;
}

}  // namespace chainio::sema
