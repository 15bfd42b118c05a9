// `a.b`: members of views, blocks, events, files, captures and requests.
#include <algorithm>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::Type;
using checked::TypeKind;

namespace {

constexpr std::string_view kOfNothing[] = {"decimal", "count", "sum", "min", "max"};  // methods without arguments

// What others call the length of a file.
bool means_file_size(std::string_view name) {
    static constexpr std::string_view kLengths[] = {"size", "length", "len", "filesize", "end"};
    return std::ranges::find(kLengths, name) != std::end(kLengths);
}

}  // namespace

bool Checker::need_block(Span span) {
    if (env_.block) return true;
    const bool done = env_.site == Site::done;
    const bool shadow = env_.site == Site::shadow;
    error(no_block_here, span, "there is no block here",
          done ? "`done` runs after the last read: keep what it needs in `state`"
          : shadow
              ? "this event brings no bytes; `on read` and `on ready` do"
              : "a block exists once a step has been read; here only parameters, header fields and state can be used");
    return false;
}

Value Checker::block_bytes(Span span) {
    Type type{TypeKind::bytes};
    type.max = static_cast<std::uint32_t>(kMaxBlock);
    Value out = make(ExprKind::block_bytes, type, span);
    out.place = Place::block;
    return out;
}

const Binding* Checker::event_of(const ast::Expr& e) {
    const auto* name = std::get_if<ast::NameRef>(&e.node);
    Binding* b = name ? lookup(name->name.text) : nullptr;
    if (!b || b->kind != Binding::Kind::event) return nullptr;
    b->used = true;
    return b;
}

const char* Checker::what_event_has() const {
    switch (env_.chain ? env_.chain->out->mode : ir::ChainMode::on_read) {
        case ir::ChainMode::on_open: return "it has file and last_read";
        case ir::ChainMode::on_ready:
            return "it has bytes, offset, length, total, record(R), records(R) and text(Rule)";
        default:
            return "it has bytes, offset, length, total, mark, last_mark, file, record(R), records(R) and text(Rule)";
    }
}

// `block.offset`, and the same of a shadow chain's event.
Value Checker::block_member(const ast::Name& field, Span span, const Binding* event) {
    if (event && env_.chain && env_.chain->out->mode == ir::ChainMode::on_probe) {
        std::vector<std::string> names;
        for (std::uint32_t i = 0; i < env_.chain->out->params.size(); i++) {
            const checked::Param& param = env_.chain->out->params[i];
            names.push_back(param.name);
            if (param.name != field.text) continue;
            Value out = make(ExprKind::param, param.type, span);
            out.expr->index = i;
            out.place = Place::args;
            return out;
        }
        error(unknown_field, field.span, "the probe has no argument `" + field.text + "`",
              suggestion(field.text, names, "declare it with the probe"));
        return {};
    }
    if (event && event_has_file() && field.text == "file") {
        error(wrong_kind, span, "this is a file, not a value",
              "use it as the target of `prefetch`, or name a field of its header");
        return {};
    }
    // An open has no read of its own: what the thread has last read of such a file tells how it goes about it.
    if (event && field.text == "last_read" && env_.chain && env_.chain->out->mode == ir::ChainMode::on_open)
        return make(ExprKind::block_tag, {TypeKind::integer}, span);
    const bool is_read = event && env_.chain && env_.chain->out->mode == ir::ChainMode::on_read;
    if (is_read && field.text == "mark") return file_fact(0, ir::kMarkField, span);
    if (is_read && field.text == "last_mark") return file_fact(0, ir::kLastMarkField, span);
    std::vector<std::string> names{"offset", "length", event ? "bytes" : "tag"};
    if (is_read) names.insert(names.end(), {"mark", "last_mark"});
    if (event) names.insert(names.end(), {"total", "record", "records", "text"});
    if (event && event_has_file()) names.emplace_back("file");
    if (event && env_.chain && env_.chain->out->mode == ir::ChainMode::on_open) names = {"file", "last_read"};
    const bool known = field.text == "offset" || field.text == "length" || field.text == "bytes" ||
                       field.text == (event ? "total" : "tag");
    if (!known) {
        error(unknown_field, field.span, std::string(event ? "an event" : "`block`") + " has no `" + field.text + "`",
              suggestion(field.text, names, event ? what_event_has() : "it has offset, length and tag"));
        return {};
    }
    if (!need_block(span)) return {};
    if (field.text == "bytes") return block_bytes(span);
    const ExprKind kind = field.text == "offset"   ? ExprKind::block_offset
                          : field.text == "length" ? ExprKind::block_length
                                                   : ExprKind::block_tag;
    return make(kind, {TypeKind::integer}, span);
}

// What is before the dot may be something other than a value: a block, an event, a file, an import, a record's name.
Value Checker::member_access(const ast::Expr& e, const ast::FieldAccess& n, bool* handled) {
    *handled = true;
    if (std::holds_alternative<ast::BlockLit>(n.base->node)) return block_member(n.field, e.span, nullptr);
    if (const Binding* event = event_of(*n.base)) return block_member(n.field, e.span, event);
    if (const auto* inner = std::get_if<ast::FieldAccess>(&n.base->node)) {
        if (event_of(*inner->base) && inner->field.text == "file") return header_field(0, n.field, e.span);
        Symbol* member = find_member(*n.base, true);
        if (member && member->kind == SymbolKind::record) {
            bool found = false;
            Value v = record_choice(member->index, n.field, &found);
            if (found) return v;
        }
    }
    if (const auto* name = std::get_if<ast::NameRef>(&n.base->node)) {
        if (Binding* b = lookup(name->name.text)) {
            b->used = true;
            if (b->kind == Binding::Kind::file) return header_field(b->index, n.field, e.span);
            if (b->kind == Binding::Kind::event_file) return header_field(0, n.field, e.span);
            if (b->kind == Binding::Kind::request) return request_field(n.field, e.span);
            if (b->kind == Binding::Kind::datagram) return datagram_field(n.field, e.span);
        } else if (Symbol* symbol = env_.scope ? find(*env_.scope, name->name.text) : nullptr) {
            if (symbol->kind == SymbolKind::module) return imported_value(*symbol, e, n);
            if (symbol->kind == SymbolKind::record) {
                symbol->used = true;
                bool found = false;
                return record_choice(symbol->index, n.field, &found);
            }
        }
    }
    *handled = false;
    return {};
}

Value Checker::imported_value(Symbol& module, const ast::Expr& e, const ast::FieldAccess& n) {
    if (Symbol* member = find_member(e, false)) return symbol_value(*member, e.span);
    bool found = false;
    Value v = choice_value(instances_[module.index], n.field, &found);
    failed_ |= !found;
    return v;
}

// `Record.name`: one of the values that the record's fields may have.
Value Checker::record_choice(std::uint32_t index, const ast::Name& name, bool* found) {
    *found = true;
    record(index, name.span);
    std::vector<std::string> names;
    for (const auto& info : records_[index].infos) {
        if (!info.facts) continue;
        for (const auto& [word, number] : info.facts->choices) {
            names.emplace_back(word);
            if (word == name.text) return exact_constant(number, name.span, ast::Unit::none);
        }
    }
    failed_ = true;
    if (records_[index].failed) return {};
    if (records_[index].by_name.contains(name.text)) {
        error(wrong_kind, name.span, "`" + name.text + "` is a field, and this is the record itself, not a view of it",
              "make a view: `offset.as(" + module_.records[index].name + ")." + name.text + "`");
    } else {
        error(unknown_field, name.span,
              "no field of record `" + module_.records[index].name + "` has a value named `" + name.text + "`",
              suggestion(name.text, names, "names of values are given with `in { 1 name, … }`"));
    }
    return {};
}

Value Checker::field_access(const ast::Expr& e, const ast::FieldAccess& n) {
    if (n.field.text.empty()) {
        failed_ = true;
        return {};
    }
    bool handled = false;
    Value special = member_access(e, n, &handled);
    if (handled) return special;
    Value base = value(*n.base);
    if (!base) return {};
    const bool is_bit =
        base.facts && std::ranges::find(base.facts->bits, n.field.text, &Bit::name) != base.facts->bits.end();
    if (is_bit && base.expr->type.kind == TypeKind::integer) return bit_field(std::move(base), n.field, e.span);
    switch (base.expr->type.kind) {
        case TypeKind::view: return view_field(std::move(base), n.field, e.span);
        case TypeKind::text: return text_capture(std::move(base), n.field, e.span);
        case TypeKind::bytes:
        case TypeKind::array: {
            const bool offset = n.field.text == "offset", end = n.field.text == "end";
            if ((offset || end) && base.expr->type.kind == TypeKind::bytes && base.place == Place::block)
                return bytes_place(std::move(base), end, e.span);
            if (n.field.text != "length") break;
            Value out = make(base.expr->type.kind == TypeKind::bytes ? ExprKind::bytes_length : ExprKind::array_length,
                             {TypeKind::integer}, e.span);
            if (base.exact && base.expr->type.kind == TypeKind::bytes && is_there(*base.expr))
                return int_constant(*base.exact, e.span);
            out.expr->kids.push_back(std::move(base.expr));
            return out;
        }
        default: break;
    }
    std::vector<std::string> names;
    std::string hint = "only views, bytes, arrays and captures have members";
    if (is_bit) {
        hint = "take an element: `[i]." + n.field.text + "`";
    } else if (base.facts && !base.facts->bits.empty() && base.expr->type.kind == TypeKind::integer) {
        for (const auto& bit : base.facts->bits) names.emplace_back(bit.name);
        hint = suggestion(n.field.text, names, "its bit fields have other names");
    } else if (base.expr->type.kind == TypeKind::bytes || base.expr->type.kind == TypeKind::array) {
        const bool takes_nothing =
            n.field.text.contains("int_") || std::ranges::find(kOfNothing, n.field.text) != std::end(kOfNothing);
        const bool is_bytes = base.expr->type.kind == TypeKind::bytes;
        hint = has_method(base, n.field.text)
                   ? "it is a method: write `." + n.field.text + (takes_nothing ? "()`" : "(…)`")
                   : suggestion(n.field.text, {"length"},
                                std::string("it has `.length`, and methods such as ") +
                                    (is_bytes ? "`.uint_le()`" : "`.count()`"));
    } else if (base.expr->type.kind == TypeKind::integer) {
        hint = "to read a record at that offset of the block, write `.as(Record)." + n.field.text + "`";
    }
    error(unknown_field, n.field.span, describe(base.expr->type) + " has no `" + n.field.text + "`", std::move(hint));
    return {};
}

// Whether it is there in any case: a name, a constant, or a field that every view of its record has. What is known of
// another one's length does not say that it has one, as its checks do when it is read.
bool Checker::is_there(const checked::Expr& e) const {
    if (e.kind != ExprKind::field) return e.kind == ExprKind::local || e.kind == ExprKind::bytes_const;
    const checked::Expr& view = *e.kids.front();
    return records_[view.type.record].infos[e.index].always && is_there(view);
}

// Where in the block bytes begin or end.
Value Checker::bytes_place(Value base, bool end, Span span) {
    checked::ExprPtr first;
    Value named = end ? name_local(std::move(base), "bytes", &first) : std::move(base);
    Value offset = make(ExprKind::bytes_offset, {TypeKind::integer}, span);
    if (!end) {
        offset.expr->kids.push_back(std::move(named.expr));
        return offset;
    }
    offset.expr->kids.push_back(clone(*named.expr));
    Value length = make(ExprKind::bytes_length, {TypeKind::integer}, span);
    length.expr->kids.push_back(clone(*named.expr));
    return wrap(arithmetic_values(std::move(offset), std::move(length), checked::Binary::add, span, span), named,
                std::move(first));
}

Value Checker::bit_field(Value base, const ast::Name& field, Span span) {
    for (const auto& bit : base.facts->bits) {
        if (bit.name != field.text) continue;
        const auto bits = static_cast<std::uint8_t>((bit.width + 7) / 8 * 8);
        Value out = make(ExprKind::bit_field, {TypeKind::integer, bits, false}, span);
        out.expr->index = bit.low;
        out.expr->index2 = bit.width;
        out.expr->kids.push_back(std::move(base.expr));
        return out;
    }
    return {};
}

Value Checker::view_field(Value view, const ast::Name& field, Span span) {
    const std::uint32_t index = view.expr->type.record;
    const RecordInfo* info = record(index, span);
    if (!info) return {};
    auto it = info->by_name.find(field.text);
    if (it == info->by_name.end()) {
        if (info->failed) {
            failed_ = true;
            return {};
        }
        const bool offset = field.text == "offset", end = field.text == "end", size = field.text == "size";
        if (offset || end) {
            Value out = make(offset ? ExprKind::view_offset : ExprKind::view_end, {TypeKind::integer}, span);
            out.expr->kids.push_back(std::move(view.expr));
            return out;
        }
        if (size) return view_size(std::move(view), span);
        failed_ = true;
        if (info->failed) return {};
        std::vector<std::string> names;
        for (const auto& [name, number] : info->by_name) names.emplace_back(name);
        std::string all = listed("its fields are", names);
        names.insert(names.end(), {"offset", "end", "size"});
        error(unknown_field, field.span,
              "record `" + module_.records[index].name + "` has no field `" + field.text + "`",
              suggestion(field.text, names, std::move(all)), {{info->span, "the record is declared here"}});
        return {};
    }
    const checked::Field& f = module_.records[index].fields[it->second];
    const FieldInfo& facts = info->infos[it->second];
    if (f.type.kind == TypeKind::none) {  // the field itself is wrong, and was reported
        failed_ = true;
        return {};
    }
    Value out = make(ExprKind::field, f.type, span);
    out.expr->index = it->second;
    out.expr->kids.push_back(std::move(view.expr));
    facts.tell(out);
    return out;
}

Value Checker::view_size(Value view, Span span) {
    const std::int64_t fixed = module_.records[view.expr->type.record].fixed_size;
    if (fixed >= 0 && is_there(*view.expr)) return int_constant(static_cast<std::uint64_t>(fixed), span);
    checked::ExprPtr first;
    Value named = name_local(std::move(view), "view", &first);
    Value end = make(ExprKind::view_end, {TypeKind::integer}, span),
          begin = make(ExprKind::view_offset, {TypeKind::integer}, span);
    end.expr->kids.push_back(clone(*named.expr));
    begin.expr->kids.push_back(clone(*named.expr));
    Value size = arithmetic_values(std::move(end), std::move(begin), checked::Binary::sub, span, span);
    return wrap(std::move(size), named, std::move(first));
}

// What the runtime says of a file, beside the fields of its header.
Value Checker::file_fact(std::uint32_t file, std::uint16_t which, Span span) {
    env_.chain->header_fields.insert({file, which});
    Value fact = make(ExprKind::header_field, {TypeKind::integer}, span);
    fact.expr->index = file;
    fact.expr->index2 = which;
    return fact;
}

// `db.page_size`: a field of the header of the file that a parameter names.
Value Checker::header_field(std::uint32_t file, const ast::Name& field, Span span) {
    if (!env_.chain) {
        error(wrong_kind, span, "a header field can be used inside a chain only",
              "pass it to the chain as a parameter");
        return {};
    }
    const auto& params = env_.chain->out->params;
    if (file >= params.size() || params[file].kind != ir::Param::Kind::file) {
        error(no_header, span, "this event has no file", "only `on read` and `on open` have one");
        return {};
    }
    const checked::Param& param = params[file];
    const checked::FileClass& files = module_.files[param.file_class];
    if (field.text == ir::kFileSizeName || (field.text == "read_ahead" && event_has_file())) {
        const std::uint16_t which = field.text == ir::kFileSizeName ? ir::kFileSizeField : ir::kReadAheadField;
        Value size = file_fact(file, which, span);
        size.unit = ast::Unit::bytes;
        return size;
    }
    if (files.header_record < 0) {
        if (files_[param.file_class].header)
            failed_ = true;  // it names no record, and that was reported
        else
            error(no_header, field.span,
                  "files `" + files.info.name + "` have no header record, so `" + param.name + "." + field.text +
                      "` means nothing",
                  means_file_size(field.text)
                      ? "the file's length is `" + param.name + ".file_size`"
                      : "declare what the files begin with: files " + files.info.name + " = \"…\" { header Record }");
        return {};
    }
    const auto index = static_cast<std::uint32_t>(files.header_record);
    const RecordInfo* info = record(index, span);
    if (!info) return {};
    auto it = info->by_name.find(field.text);
    if (it == info->by_name.end()) {
        failed_ = true;
        if (info->failed) return {};
        std::vector<std::string> names;
        for (const auto& [name, number] : info->by_name) names.emplace_back(name);
        error(unknown_field, field.span,
              "the header `" + module_.records[index].name + "` of files `" + files.info.name + "` has no field `" +
                  field.text + "`",
              means_file_size(field.text) ? "the file's length is `" + param.name + ".file_size`"
                                          : suggestion(field.text, names, listed("its fields are", names)),
              {{info->span, "the record is declared here"}});
        return {};
    }
    const checked::Field& f = module_.records[index].fields[it->second];
    if (f.type.kind == TypeKind::none) {
        failed_ = true;
        return {};
    }
    if (f.type.kind != TypeKind::integer) {
        error(header_field_kind, field.span,
              "`" + field.text + "` is " + describe(f.type) + ", and only integers of a header reach a chain",
              "derive an integer in the header record: `let x = …`");
        return {};
    }
    env_.chain->header_fields.insert({file, it->second});
    Value out = make(ExprKind::header_field, f.type, span);
    out.expr->index = file;
    out.expr->index2 = it->second;
    info->infos[it->second].tell(out);
    out.chosen &= !f.when;  // 0 where it is absent
    return out;
}

// What a capture may be that is a choice, once.
const FieldFacts* Checker::facts_of_capture(const checked::TextRule& rule, std::uint32_t capture) {
    const auto item = std::ranges::find(rule.items, static_cast<std::int32_t>(capture), &checked::TextItem::capture);
    if (item == rule.items.end() || item->kind != checked::TextItem::Kind::choice || item->repeat_max > 1)
        return nullptr;
    FieldFacts& facts = facts_.emplace_back();
    facts.texts = item->literals;
    return &facts;
}

Value Checker::text_capture(Value text, const ast::Name& field, Span span) {
    const checked::TextRule& rule = module_.texts[text.expr->type.record];
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < rule.capture_names.size(); i++) {
        names.push_back(rule.capture_names[i]);
        if (rule.capture_names[i] != field.text) continue;
        Value out = make(ExprKind::capture, rule.captures[i], span);
        out.expr->index = i;
        out.place = Place::block;
        out.facts = facts_of_capture(rule, i);
        out.chosen = out.facts != nullptr;
        out.expr->kids.push_back(std::move(text.expr));
        return out;
    }
    error(unknown_field, field.span, "text rule `" + rule.name + "` captures no `" + field.text + "`",
          suggestion(field.text, names, listed("its captures are", names)));
    return {};
}

Value Checker::request_field(const ast::Name& field, Span span) {
    RequestScope& request = *env_.request;
    if (auto it = request.texts.find(field.text); it != request.texts.end()) {
        if (it->second.kind == Binding::Kind::error) {
            failed_ = true;
            return {};
        }
        Value v = clone(it->second.value);
        v.expr->span = span;
        return v;
    }
    if (request.record >= 0) {
        const auto index = static_cast<std::uint32_t>(request.record);
        if (records_[index].by_name.contains(field.text)) {
            Type type{TypeKind::view};
            type.record = index;
            Value v = view_field(make(ExprKind::local, type, span), field, span);
            v.chosen &= !request.datagram;  // which runs for requests of bad form, too
            return v;
        }
        if (records_[index].failed) {
            failed_ = true;
            return {};
        }
    }
    std::vector<std::string> names;
    for (const auto& f : *request.fields) names.push_back(f.name.text);
    if (request.datagram && std::ranges::find(names, field.text) != names.end()) {
        error(wrong_kind, field.span, "`on datagram` has no text rules of the request",
              "it runs for requests of bad form, too: use the fields before it");
        return {};
    }
    error(unknown_field, field.span, "the request has no field `" + field.text + "`",
          suggestion(field.text, names, listed("its fields are", names)));
    return {};
}

// The runtime says which datagram it is where a step's read has its place.
Value Checker::datagram_field(const ast::Name& field, Span span) {
    if (field.text == "number") return make(ExprKind::block_offset, {TypeKind::integer}, span);
    if (field.text == "count") return make(ExprKind::block_tag, {TypeKind::integer}, span);
    error(unknown_field, field.span, "`datagram` has no `" + field.text + "`",
          suggestion(field.text, {"number", "count"}, "it has number and count"));
    return {};
}

}  // namespace chainio::sema
