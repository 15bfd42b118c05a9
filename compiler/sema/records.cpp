// Records: fields in their order, each placed after the one before, and the size of the whole when it is fixed.
#include "compiler/sema/layout.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::Field;
using checked::Type;
using checked::TypeKind;

namespace {

constexpr const char* kNestLess = "nest fewer records in records: make a view of the inner one where it is needed";

}  // namespace

const RecordInfo* Checker::record(std::uint32_t index, Span use) {
    RecordInfo& info = records_[index];
    if (info.progress == Progress::busy) {
        error(record_recursion, use, "record `" + module_.records[index].name + "` contains itself",
              "keep the offset of the next one as an integer, and make the view where it is needed",
              {{info.span, "the record is declared here"}});
        info.failed = true;
        return nullptr;
    }
    if (info.progress == Progress::open) {
        if (too_deep(levels_, "record `" + module_.records[index].name + "`", use, info.span, kNestLess)) {
            info.failed = true;
            return nullptr;
        }
        const Level level(levels_, 2);
        resolve_record(index);
    }
    return &info;
}

void Checker::resolve_record(std::uint32_t index) {
    RecordInfo& info = records_[index];
    info.progress = Progress::busy;
    const std::size_t errors = diags_.error_count();
    const bool failed_before = failed_;
    failed_ = false;
    checked::Record out;
    out.name = module_.records[index].name;
    Type self{TypeKind::view};
    self.record = index;
    out.locals.push_back({"self", self, false});
    Layout layout;
    layout.record = index;
    {
        EnvScope there(*this, Env{.scope = info.scope,
                                  .site = Site::record,
                                  .block = true,
                                  .locals = &out.locals,
                                  .base = bindings_.size(),
                                  .record = &info});
        if (info.fields)
            for (const auto& field : *info.fields) add_field(out, info, layout, field);
        if (info.picked)
            for (const ast::Field* field : *info.picked) add_field(out, info, layout, *field);
    }
    if (info.fields && info.fields->empty() && !after_syntax_errors_)
        error(empty_record, info.span, "record `" + out.name + "` has no fields", "give it at least one");
    out.fixed_size = layout.offset;
    const bool varies = out.fixed_size < 0;
    const std::int64_t least = varies ? layout.furthest : out.fixed_size;
    if (least > static_cast<std::int64_t>(kMaxBlock)) {
        error(record_too_large, info.span,
              "record `" + out.name + "` has " + (varies ? "at least " : "") + std::to_string(least) + " bytes",
              "a block has at most 64 KiB; read the record in parts");
    }
    if (layout.offset >= 0 && layout.furthest > layout.offset && !failed_) {
        error(end_inside, layout.furthest_span,
              "this field ends at byte " + std::to_string(layout.furthest) +
                  ", but the record's last field ends at byte " + std::to_string(layout.offset),
              "a record ends where its last field ends: move this field last, or add `_: at " +
                  std::to_string(layout.furthest) + "`");
    }
    info.failed |= (info.fields && info.fields->empty()) || failed_ || diags_.error_count() != errors;
    failed_ |= failed_before;
    module_.records[index] = std::move(out);
    info.progress = Progress::done;
}

void Checker::add_field(checked::Record& out, RecordInfo& info, Layout& layout, const ast::Field& n) {
    const auto index = static_cast<std::uint32_t>(out.fields.size());
    begin_expression(n.span);
    Field field;
    FieldInfo facts;
    const std::size_t errors = diags_.error_count();
    const bool padding = n.kind == ast::Field::Kind::skip || n.name.text == "_";
    field.span = n.kind == ast::Field::Kind::skip ? n.span : n.name.span;
    if (!padding) field.name = n.name.text;
    if (n.at) field.at = [&] { return offset_value(*n.at, "the offset of a field").expr; }();
    bool ok = !n.at || field.at;
    if (n.kind == ast::Field::Kind::derived) {
        field.kind = Field::Kind::derived;
        Value v = n.value ? value(*n.value) : Value{};
        settle(v);
        if (v && v.expr->type.kind == TypeKind::text)
            v = wrong(v, n.value->span, "an integer or bytes", "a derived field");
        ok &= static_cast<bool>(v);
        if (v) {
            field.type = v.expr->type;
            facts = {v.unit, v.facts, v.exact, v.place, v.chosen};
            field.value = std::move(v.expr);
        }
    } else if (n.kind == ast::Field::Kind::skip) {
        field.kind = Field::Kind::padding;
    } else {
        field_base(field, facts, info, n);
        ok &= field.type.kind != TypeKind::none;
        if (field.type.kind == TypeKind::bytes) facts.place = Place::block;
        if (ok)
            field_modifiers(field, facts, info, n);
        else if (n.when)
            boolean(*n.when, "the condition of a field");
    }
    if (diags_.error_count() != errors) ok = false;
    if (ok) {
        place_field(field, layout, n, info);
        field_levels(field, facts, info);
        info.levels = std::max(info.levels, facts.levels);
        ok = !too_deep(facts.levels, padding ? "this field" : "field `" + field.name + "`", field.span, {},
                       field.kind == Field::Kind::record ? kNestLess : "let fewer fields depend on one another");
    } else {
        layout.offset = -1;
    }
    if (!ok) {
        failed_ = true;
        field.type = {};
    }
    const Type type = field.type;
    facts.always = !field.when && field.fixed_offset >= 0 && field.fixed_size >= 0;
    out.fields.push_back(std::move(field));
    info.infos.push_back(facts);
    if (padding || n.name.text.empty()) return;
    Binding b;
    b.name = n.name.text;
    b.span = n.name.span;
    if (!info.by_name.try_emplace(n.name.text, index).second) {
        error(duplicate_name, n.name.span, "the record has two fields `" + n.name.text + "`", "rename one of the two",
              {{lookup(n.name.text)->span, "the first is here"}});
        return;
    }
    if (ok) {
        b.kind = Binding::Kind::value;
        b.value = make(ExprKind::field, type, n.name.span);
        b.value.expr->index = index;
        Type self{TypeKind::view};
        self.record = layout.record;
        b.value.expr->kids.push_back(make(ExprKind::local, self, n.name.span).expr);
        facts.tell(b.value);
    }
    bind(std::move(b));
}

// The largest value that an integer can have, as far as its type, its being a constant, or `min` says.
std::uint64_t Checker::largest(const Value& v) const {
    if (v.expr->kind == ExprKind::int_const) return v.expr->value;
    if (v.most) return *v.most;
    if (v.expr->type.bits >= 64) return ~0ULL;
    return (1ULL << v.expr->type.bits) - 1;
}

// Of a field that is in the block, as far as its type says.
std::uint64_t Checker::most_bytes(const Field& field) const {
    constexpr std::uint64_t longest_varint = 10;
    if (field.fixed_size >= 0) return static_cast<std::uint64_t>(field.fixed_size);
    switch (field.kind) {
        case Field::Kind::varint: return longest_varint;
        case Field::Kind::cstr: return field.max + std::uint64_t{1};
        case Field::Kind::bytes:
        case Field::Kind::padding: return field.max;
        case Field::Kind::array: break;
        default: return kMaxBlock;
    }
    const Type& element = *field.type.element;
    const bool is_record = element.kind == TypeKind::view;
    return field.max *
           (is_record ? static_cast<std::uint64_t>(module_.records[element.record].fixed_size) : field.width);
}

void Checker::place_field(Field& field, Layout& layout, const ast::Field& n, RecordInfo& info) {
    if (field.kind == Field::Kind::derived) return;
    const bool constant_at = field.at && field.at->kind == ExprKind::int_const;
    const auto at =
        constant_at ? static_cast<std::int64_t>(std::min<std::uint64_t>(field.at->value, kMaxBlock + 1)) : -1;
    if (constant_at && field.at->value > kMaxBlock) {
        error(record_too_large, n.at->span, "byte " + std::to_string(field.at->value) + " is outside of any block",
              "a block has at most 64 KiB");
        info.failed = true;
        return;
    }
    if (n.kind == ast::Field::Kind::skip) {
        if (constant_at && layout.offset > at) {
            error(skip_backwards, n.span, "the record is at byte " + std::to_string(layout.offset) + " already",
                  "skip to byte " + std::to_string(layout.offset) + " or later; a field may stand earlier with `at`");
        }
        field.compared = constant_at && layout.offset < 0 && layout.most > field.at->value;
        field.fixed_offset = layout.offset;
        layout.offset = at;
        layout.most = constant_at ? field.at->value : kMaxBlock;
        return;
    }
    const std::uint64_t begin = !field.at ? layout.most : constant_at ? field.at->value : kMaxBlock;
    layout.most = begin + most_bytes(field);
    field.fixed_offset = field.at ? at : layout.offset;
    const bool known = field.fixed_offset >= 0 && field.fixed_size >= 0;
    layout.offset = known && !field.when ? field.fixed_offset + field.fixed_size : -1;
    if (known && field.fixed_offset + field.fixed_size > layout.furthest) {
        layout.furthest = field.fixed_offset + field.fixed_size;
        layout.furthest_span = field.span;
    }
}

}  // namespace chainio::sema
