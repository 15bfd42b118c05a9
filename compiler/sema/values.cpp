// Copies of checked expressions, the names of types, and the words for integer types.
#include "compiler/sema/internal.h"

#include <algorithm>

namespace chainio::sema {

checked::ExprPtr clone(const checked::Expr& e) {
    auto out = std::make_unique<checked::Expr>();
    out->kind = e.kind;
    out->type = e.type;
    out->span = e.span;
    out->value = e.value;
    out->index = e.index;
    out->index2 = e.index2;
    out->bytes = e.bytes;
    out->locals = e.locals;
    for (const auto& kid : e.kids) out->kids.push_back(kid ? clone(*kid) : nullptr);
    if (e.body) out->body = checked::Lambda{e.body->local, clone(*e.body->body)};
    for (const auto& f : e.filters) out->filters.push_back({f.local, clone(*f.body), f.given});
    return out;
}

Value clone(const Value& v) {
    Value out;
    if (v.expr) out.expr = clone(*v.expr);
    out.unit = v.unit;
    out.flexible = v.flexible;
    out.mask = v.mask;
    out.place = v.place;
    out.exact = v.exact;
    out.most = v.most;
    out.facts = v.facts;
    out.chosen = v.chosen;
    return out;
}

// What is known of the field is known of its value.
void FieldInfo::tell(Value& v) const {
    v.unit = unit;
    v.place = place;
    v.exact = exact;
    v.facts = facts;
    v.chosen = chosen;
}

std::string type_name(const checked::Type& type) {
    switch (type.kind) {
        case checked::TypeKind::none: return "nothing";
        case checked::TypeKind::integer: return (type.is_signed ? "i" : "u") + std::to_string(type.bits);
        case checked::TypeKind::boolean: return "bool";
        case checked::TypeKind::bytes: return "bytes";
        case checked::TypeKind::view: return "a view of a record";
        case checked::TypeKind::array: return type.element ? "an array of " + type_name(*type.element) : "an array";
        case checked::TypeKind::text: return "the captures of a text rule";
    }
    return "a value";
}

// Whether the name may be one that could not be read: an import is missing, or the declaration had a syntax error.
bool Instance::is_broken(std::string_view word) const {
    return incomplete || (file && std::ranges::find(file->broken_names, word) != file->broken_names.end());
}

std::optional<Scalar> parse_scalar(std::string_view name) {
    if (name.size() < 2 || (name[0] != 'u' && name[0] != 'i')) return std::nullopt;
    Scalar out;
    out.is_signed = name[0] == 'i';
    std::size_t at = 1;
    unsigned bits = 0;
    while (at < name.size() && at < 3 && name[at] >= '0' && name[at] <= '9')
        bits = bits * 10 + static_cast<unsigned>(name[at++] - '0');
    if (bits < 8 || bits > 64 || bits % 8 != 0) return std::nullopt;
    out.bits = static_cast<std::uint8_t>(bits);
    std::string_view rest = name.substr(at);
    if (rest == "le")
        out.order = Scalar::Order::little;
    else if (rest == "be")
        out.order = Scalar::Order::big;
    else if (!rest.empty())
        return std::nullopt;
    if (bits == 8 && out.order != Scalar::Order::none) return std::nullopt;
    return out;
}

}  // namespace chainio::sema
