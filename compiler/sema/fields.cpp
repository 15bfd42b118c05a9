// The types of a record's fields, and what `at`, `when`, `==` and `in` add to them.
#include "compiler/sema/layout.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::Field;
using checked::Type;
using checked::TypeKind;

void Checker::field_base(Field& field, FieldInfo& facts, RecordInfo& info, const ast::Field& n) {
    if (const auto* bytes = std::get_if<ast::BytesType>(&n.type.base)) {
        bytes_field(field, facts, info, n, *bytes);
    } else if (const auto* cstr = std::get_if<ast::CstrType>(&n.type.base)) {
        auto max = cstr->max
                       ? here_uint(*cstr->max, "the bound of a cstr", 1, kMaxBlock, out_of_range, ast::Unit::bytes)
                       : std::nullopt;
        if (!max) return;
        const auto stop = cstr->stop ? one_byte(*cstr->stop, "what a cstr ends with", "`by \"\\n\"`") : std::uint8_t{0};
        if (!stop) return;
        field.kind = Field::Kind::cstr;
        field.stop = *stop;
        field.max = static_cast<std::uint32_t>(*max);
        field.type = {TypeKind::bytes};
        field.type.max = field.max;
    } else if (const auto* bits = std::get_if<ast::BitsType>(&n.type.base)) {
        bits_field(field, facts, info, *bits);
    } else {
        named_field(field, facts, info, n, std::get<ast::NamedType>(n.type.base));
    }
    if (field.type.kind != TypeKind::none && n.type.count) array_field(field, info, n);
}

void Checker::scalar_field(Field& field, const ast::Name& name, bool& known) {
    known = true;
    if (name.text == "bool") {
        error(type_not_here, name.span, "a field cannot be a bool", "use u8, and compare: `… != 0`");
        return;
    }
    if (name.text == "varint_leb128" || name.text == "varint_zigzag" || name.text == "varint_sqlite") {
        field.kind = Field::Kind::varint;
        field.varint = name.text == "varint_leb128"   ? ir::VarintKind::leb128
                       : name.text == "varint_zigzag" ? ir::VarintKind::zigzag
                                                      : ir::VarintKind::sqlite;
        field.is_signed = name.text == "varint_zigzag";
        field.type = {TypeKind::integer, 64, field.is_signed};
        return;
    }
    auto scalar = parse_scalar(name.text);
    if (!scalar) {
        known = false;
        return;
    }
    if (scalar->bits > 8 && scalar->order == Scalar::Order::none) {
        error(byte_order_missing, name.span, "a field of " + std::to_string(scalar->bits) + " bits needs a byte order",
              "write `" + name.text + "le` or `" + name.text + "be`");
    }
    field.kind = Field::Kind::integer;
    field.width = static_cast<std::uint8_t>(scalar->bits / 8);
    field.big_endian = scalar->order == Scalar::Order::big;
    field.is_signed = scalar->is_signed;
    field.fixed_size = field.width;
    field.type = {TypeKind::integer, scalar->bits, scalar->is_signed};
}

void Checker::named_field(Field& field, FieldInfo&, RecordInfo&, const ast::Field& n, const ast::NamedType& named) {
    const ast::Name& name = named.name.name;
    if (name.text.empty()) {
        failed_ = true;
        return;
    }
    bool known = false;
    if (named.name.module.text.empty()) scalar_field(field, name, known);
    if (known) return;
    if (named.name.module.text.empty() && !find(*env_.scope, name.text) && !env_.scope->is_broken(name.text)) {
        if (name.text.size() == 4 && (name.text.starts_with("u8") || name.text.starts_with("i8")) &&
            (name.text.ends_with("le") || name.text.ends_with("be"))) {
            error(unknown_type, name.span, "there is no type or record `" + name.text + "`",
                  "write `" + name.text.substr(0, 2) + "`: one byte has no order");
            return;
        }
        std::vector<std::string> words = names_of(*env_.scope, SymbolKind::record);
        for (const char* sign : {"u", "i"})
            for (int bits = 16; bits <= 64; bits += 8)
                for (const char* order : {"le", "be"}) words.push_back(sign + std::to_string(bits) + order);
        for (const char* word : {"u8", "i8", "varint_leb128", "varint_zigzag", "varint_sqlite"})
            words.emplace_back(word);
        error(unknown_type, name.span, "there is no type or record `" + name.text + "`",
              suggestion(name.text, words, "declare the record, or use a type such as u32le"));
        return;
    }
    Symbol* symbol = symbol_of(named.name, SymbolKind::record, unknown_record, "record");
    if (!symbol || !record(symbol->index, n.type.span)) return;
    field.kind = Field::Kind::record;
    field.record = symbol->index;
    field.fixed_size = module_.records[symbol->index].fixed_size;
    field.type = {TypeKind::view};
    field.type.record = symbol->index;
}

void Checker::bits_field(Field& field, FieldInfo& facts, RecordInfo&, const ast::BitsType& n) {
    bool known = false;
    scalar_field(field, n.base, known);
    if (!known || field.kind != Field::Kind::integer || field.is_signed) {
        if (field.type.kind != TypeKind::none || !known)
            error(type_not_here, n.base.span, "the base of bits is an unsigned integer, not `" + n.base.text + "`",
                  "write `bits u16le { … }`");
        field.type = {};
        return;
    }
    FieldFacts& all = facts_.emplace_back();
    std::uint32_t low = 0;
    for (const auto& bit : n.fields) {
        auto width = bit.width ? here_uint(*bit.width, "the width of a bit field", 1, 64, out_of_range) : std::nullopt;
        if (!width) {
            field.type = {};
            return;
        }
        if (low + *width > field.type.bits) {
            error(bits_too_wide, bit.name.span,
                  "`" + bit.name.text + "` ends at bit " + std::to_string(low + *width) + ", and " + n.base.text +
                      " has " + std::to_string(field.type.bits),
                  "make a field narrower, or the base wider");
            field.type = {};
            return;
        }
        for (const auto& other : all.bits) {
            if (other.name == bit.name.text && bit.name.text != "_")
                error(duplicate_name, bit.name.span, "there are two bit fields `" + bit.name.text + "`",
                      "rename one of the two");
        }
        all.bits.push_back({bit.name.text, low, static_cast<std::uint32_t>(*width)});
        low += static_cast<std::uint32_t>(*width);
    }
    facts.facts = &all;
}

void Checker::bytes_field(Field& field, FieldInfo& facts, RecordInfo&, const ast::Field& n,
                          const ast::BytesType& type) {
    if (!type.length) {
        failed_ = true;
        return;
    }
    if (type.is_max) {
        error(bytes_max_in_record, n.type.span, "a field has an exact length",
              "write bytes(N), where N may be a field before it; or cstr(max N) for bytes that end with a NUL");
        return;
    }
    Value length = offset_value(*type.length, "the length of a field");
    if (!length) return;
    settle(length);
    field.kind = n.name.text == "_" ? Field::Kind::padding : Field::Kind::bytes;
    field.type = {TypeKind::bytes};
    if (length.expr->kind == ExprKind::int_const) {
        if (length.expr->value == 0 || length.expr->value > kMaxBlock) {
            error(length.expr->value == 0 ? zero_size : record_too_large, type.length->span,
                  "a field of " + std::to_string(length.expr->value) + " bytes", "a field has 1 to 65536 bytes");
            field.type = {};
            return;
        }
        field.fixed_size = static_cast<std::int64_t>(length.expr->value);
        facts.exact = static_cast<std::uint32_t>(length.expr->value);
    }
    field.type.max = static_cast<std::uint32_t>(std::min(largest(length), kMaxBlock));
    field.max = field.type.max;
    field.length = std::move(length.expr);
}

void Checker::array_field(Field& field, RecordInfo&, const ast::Field& n) {
    const std::int64_t size = field.fixed_size;
    const bool fits_array = (field.kind == Field::Kind::integer || field.kind == Field::Kind::record) && size > 0;
    if (field.kind == Field::Kind::record && env_.scope->is_broken(module_.records[field.record].name)) {
        failed_ = true;
        field.type = {};
        return;
    }
    if (!fits_array) {
        error(element_not_fixed, n.type.span, "the elements of an array have a fixed size, and these do not",
              "use integers such as u16le or records of a fixed size; walk others with `.records(R, max N)`");
        field.type = {};
        return;
    }
    Value count = count_value(*n.type.count, "the number of elements");
    if (!count) {
        field.type = {};
        return;
    }
    std::uint64_t bound = std::min(largest(count), kMaxBlock / static_cast<std::uint64_t>(size));
    if (n.type.max) {
        auto max = here_uint(*n.type.max, "the bound of an array", 1, kMaxBlock, out_of_range);
        if (!max) {
            field.type = {};
            return;
        }
        bound = std::min(bound, *max);
    }
    const bool constant = count.expr->kind == ExprKind::int_const;
    if (constant && (count.expr->value == 0 || count.expr->value > kMaxBlock / static_cast<std::uint64_t>(size))) {
        error(count.expr->value == 0 ? zero_size : record_too_large, n.type.count->span,
              "an array of " + std::to_string(count.expr->value) + " elements of " + std::to_string(size) + " bytes",
              "an array has at least one element and fits a block of 64 KiB");
        field.type = {};
        return;
    }
    if (constant && count.expr->value > bound) {
        error(out_of_range, n.type.count->span,
              "an array of " + std::to_string(count.expr->value) + " elements, and at most " + std::to_string(bound) +
                  " of them are wanted",
              "leave `max` out: a constant count is its own bound");
        field.type = {};
        return;
    }
    field.kind = Field::Kind::array;
    Type element = field.type;
    field.type = {TypeKind::array};
    field.type.max = static_cast<std::uint32_t>(bound);
    field.type.element = std::make_shared<Type>(element);
    field.max = static_cast<std::uint32_t>(bound);
    field.fixed_size = constant ? static_cast<std::int64_t>(count.expr->value) * size : -1;
    settle(count);
    field.count = std::move(count.expr);
}

void Checker::field_modifiers(Field& field, FieldInfo& facts, RecordInfo& info, const ast::Field& n) {
    if (n.when) {
        Value v = boolean(*n.when, "the condition of a field");
        field.when = std::move(v.expr);
    }
    if (n.equals) expected_value(field, facts, info, n);
    if (!n.choices.empty()) choices_of_field(field, facts, info, n);
    if (n.name.text == "_" && !n.equals && n.choices.empty() && field.fixed_size >= 0 &&
        field.kind != Field::Kind::padding) {
        field.length = int_constant(static_cast<std::uint64_t>(field.fixed_size), n.type.span).expr;
        field.count.reset();
        field.kind = Field::Kind::padding;
        field.type = {TypeKind::bytes};
    }
}

void Checker::expected_value(Field& field, const FieldInfo& facts, RecordInfo&, const ast::Field& n) {
    if (field.kind == Field::Kind::padding) field.kind = Field::Kind::bytes;
    const TypeKind kind = field.type.kind;
    if (kind != TypeKind::integer && kind != TypeKind::bytes) {
        error(bad_modifier, n.equals->span, "only integers and bytes can be compared with a constant",
              "check a field of the record, or an element where it is used");
        return;
    }
    Value v = constant_in_place(*n.equals);
    if (!v) return;
    if (v.expr->type.kind != kind) {
        error(bad_expectation, n.equals->span,
              "the field is " + describe(field.type) + ", and this is " + describe(v.expr->type),
              kind == TypeKind::bytes ? "give bytes: \"SQLite format 3\\0\"" : "give an integer");
        return;
    }
    meet(v, field.type);
    if (kind == TypeKind::integer && !fits(v, field.type, n.equals->span, "the field")) return;
    if (kind == TypeKind::bytes && facts.exact && v.exact && *facts.exact != *v.exact) {
        error(length_mismatch, n.equals->span,
              "the field has " + std::to_string(*facts.exact) + " bytes, and these are " + std::to_string(*v.exact),
              "give exactly " + std::to_string(*facts.exact) + " bytes; \\0 and \\xHH count as one");
        return;
    }
    settle(v);
    if (kind == TypeKind::integer) v.expr->type.is_signed = field.type.is_signed;
    field.equals = std::move(v.expr);
}

Value Checker::constant_in_place(const ast::Expr& e) {
    Value v = value(e);
    if (!v) return v;
    if (v.expr->kind != ExprKind::int_const && v.expr->kind != ExprKind::bool_const &&
        v.expr->kind != ExprKind::bytes_const) {
        error(not_constant, e.span, "this is not a constant",
              "use literals, `const` and `param` names, and functions of them");
        return {};
    }
    return v;
}

void Checker::choices_of_field(Field& field, FieldInfo& facts, RecordInfo&, const ast::Field& n) {
    if (field.type.kind != TypeKind::integer) {
        error(bad_modifier, n.name.span, "only an integer has named values",
              "remove `in { … }`, or name the values of an integer field");
        return;
    }
    FieldFacts& all = facts_.emplace_back();
    if (facts.facts) all.bits = facts.facts->bits;
    for (const auto& item : n.choices) {
        if (!item.value) continue;
        const auto declared = constant_of(item);
        Value v = declared ? constant(*declared, item.value->span) : constant_in_place(*item.value);
        if (!v) continue;
        if (v.expr->type.kind != TypeKind::integer) {
            wrong(v, item.value->span, "an integer", "a value of the field");
            continue;
        }
        meet(v, field.type);
        if (!fits(v, field.type, item.value->span, "the field")) continue;
        for (const auto& [word, number] : all.choices) {
            if (word == item.name.text || number == exact(v)) {
                error(duplicate_choice, item.name.span,
                      word == item.name.text
                          ? "`" + item.name.text + "` is given twice"
                          : "`" + item.name.text + "` and `" + std::string(word) + "` are the same value",
                      "give each value one name");
                break;
            }
        }
        all.choices.emplace_back(item.name.text, exact(v));
        field.choices.push_back(v.expr->value);
    }
    facts.facts = &all;
}

}  // namespace chainio::sema
