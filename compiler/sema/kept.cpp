// Replies that the driver keeps (`cache`): which bytes of a request a reply depends on, and with what a reply begins
// that is the request's own. Both are constants of the artifact, so that the driver runs no program of the spec.
#include <algorithm>

#include "compiler/ir/size.h"
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Block;
using checked::Expr;
using checked::ExprKind;
using checked::ExprPtr;
using checked::Field;
using checked::StmtKind;
using checked::TypeKind;

namespace {

struct KeptPlace {
    std::size_t offset = 0, size = 0;
    const Field* field = nullptr;
};

bool is_request(const Expr& e) { return e.kind == ExprKind::local && e.index == 0 && e.type.kind == TypeKind::view; }

// Where in the request the field lies that `e` names, when the compiler knows.
std::optional<KeptPlace> place_of(const checked::Module& module, const Expr& e) {
    if (e.kind != ExprKind::field || e.kids.empty()) return std::nullopt;
    const Expr& base = *e.kids[0];
    std::size_t from = 0;
    if (!is_request(base)) {
        const auto outer = place_of(module, base);
        if (!outer || outer->field->kind != Field::Kind::record) return std::nullopt;
        from = outer->offset;
    }
    const Field& field = module.records[base.type.record].fields[e.index];
    if (field.kind == Field::Kind::derived || field.fixed_offset < 0 || field.fixed_size < 0) return std::nullopt;
    return KeptPlace{from + static_cast<std::size_t>(field.fixed_offset), static_cast<std::size_t>(field.fixed_size),
                     &field};
}

// Which bytes of the request a slice of `block` or one of its bytes is, when its bounds are constants. An open end is
// that of the request, whose length is compared in any case.
std::optional<KeptPlace> part_of_block(const Expr& e) {
    if (e.kind == ExprKind::block_bytes) return KeptPlace{0, kMaxBlock};
    const bool is_byte = e.kind == ExprKind::byte_at;
    if (!is_byte && e.kind != ExprKind::bytes_slice) return std::nullopt;
    const auto whole = part_of_block(*e.kids[0]);
    const Expr& low = *e.kids[1];
    if (!whole || low.kind != ExprKind::int_const || low.value >= whole->size) return std::nullopt;
    const std::size_t from = whole->offset + static_cast<std::size_t>(low.value);
    if (is_byte) return KeptPlace{from, 1};
    const Expr& high = *e.kids[2];
    if (high.kind == ExprKind::int_const) return KeptPlace{from, static_cast<std::size_t>(high.value - low.value)};
    const bool is_open = high.kind == ExprKind::bytes_length && high.kids[0]->kind == ExprKind::block_bytes;
    return is_open && e.kids[0]->kind == ExprKind::block_bytes ? std::optional(KeptPlace{from, kMaxBlock})
                                                               : std::nullopt;
}

bool has_condition(const checked::Module& module, const Field& field) {
    if (field.equals || field.when || field.compared || !field.choices.empty()) return true;
    if (field.kind != Field::Kind::record) return false;
    return std::ranges::any_of(module.records[field.record].fields,
                               [&](const Field& inner) { return has_condition(module, inner); });
}

// Which of a record's fields are there is for others of it to say.
bool has_absent(const checked::Record& record) {
    return std::ranges::any_of(record.fields, [](const Field& field) { return field.when != nullptr; });
}

bool has_place(const Field& field) { return field.fixed_offset >= 0 && field.fixed_size >= 0 && !field.when; }

// Whether what lies at a field may have bytes behind the field's end: a record whose size is fixed by `at` has fields
// that reach as far, or begin as far away, as a request says.
bool reaches_behind(const checked::Module& module, const Field& field) {
    const bool is_record = field.kind == Field::Kind::record;
    const bool is_array = field.kind == Field::Kind::array && field.type.element->kind == TypeKind::view;
    if (!is_record && !is_array) return false;
    return std::ranges::any_of(module.records[field.record].fields, [&](const Field& inner) {
        if (inner.kind == Field::Kind::derived || inner.kind == Field::Kind::padding) return false;
        return inner.fixed_offset < 0 || inner.fixed_size < 0 || reaches_behind(module, inner);
    });
}

// How many bytes at a request's begin belong to fields of known places alone. What follows is compared in any case, so
// that of the fields there nothing has to be known.
std::size_t placed_bytes(const checked::Record& record) {
    if (record.fixed_size >= 0) return static_cast<std::size_t>(record.fixed_size);
    std::size_t bytes = SIZE_MAX;
    for (const Field& field : record.fields) {
        if (field.kind == Field::Kind::derived || has_place(field)) continue;
        const bool at_constant = field.at && field.at->kind == ExprKind::int_const;
        if (field.at && !at_constant) return 0;  // it, or what follows it, may lie anywhere
        // What is left out up to a place has bytes of nobody.
        if (is_gap(field) && at_constant) continue;
        if (field.fixed_offset >= 0) bytes = std::min(bytes, static_cast<std::size_t>(field.fixed_offset));
    }
    return bytes == SIZE_MAX ? 0 : bytes;
}

// Marks the bytes of the request's placed fields that a handler looks at. What it cannot place are all.
class Marks {
  public:
    Marks(const checked::Module& module, const checked::Record& record)
        : module_(module), seen_(placed_bytes(record)), varies_(record.fixed_size < 0) {
        conditions(record, 0);
        // How long a field is, and whether it is there, says what it is, and where the fields behind it are.
        for (const Field& field : record.fields)
            for (const ExprPtr* each : {&field.at, &field.length, &field.count, &field.when}) expr(*each);
    }
    void block(const Block& block) {
        for (const auto& stmt : block) {
            for (const ExprPtr* each : {&stmt->value, &stmt->value2, &stmt->value3}) expr(*each);
            for (const ExprPtr& each : stmt->values) expr(each);
            for (const checked::ReplyPart& part : stmt->parts) expr(part.value);
            this->block(stmt->body);
            this->block(stmt->otherwise);
        }
    }
    const std::vector<bool>& seen() const { return seen_; }

  private:
    // The fields that a request of good form has to have a value of, those of records in it too.
    void conditions(const checked::Record& record, std::size_t from) {
        for (const Field& field : record.fields) {
            if (!has_condition(module_, field)) continue;
            if (field.fixed_offset < 0 || field.fixed_size < 0) return all();
            const std::size_t at = from + static_cast<std::size_t>(field.fixed_offset);
            const bool of_its_own = field.equals || field.when || !field.choices.empty();
            if (!of_its_own && field.kind == Field::Kind::record && !has_absent(module_.records[field.record]))
                conditions(module_.records[field.record], at);
            else
                mark({at, static_cast<std::size_t>(field.fixed_size), &field});
        }
    }
    void all() { seen_.assign(seen_.size(), true); }
    void mark(const KeptPlace& place) {
        for (std::size_t i = place.offset; i < place.offset + place.size && i < seen_.size(); i++) seen_[i] = true;
    }
    void expr(const ExprPtr& e) {
        if (e) expr(*e);
    }
    // A field of the request itself that lies behind the placed ones.
    bool is_behind(const Expr& e) const {
        if (!varies_ || e.kind != ExprKind::field || e.kids.empty() || !is_request(*e.kids[0])) return false;
        const Field& field = module_.records[e.kids[0]->type.record].fields[e.index];
        return field.kind != Field::Kind::derived && !has_place(field);
    }
    void expr(const Expr& e) {
        if (is_behind(e)) return;
        if (const auto place = place_of(module_, e))
            return reaches_behind(module_, *place->field) ? all() : mark(*place);
        // What lies behind the fields is compared in any case, and where it begins is a constant.
        if (e.kind == ExprKind::bytes_slice && e.kids[0]->kind == ExprKind::block_bytes &&
            e.kids[1]->kind == ExprKind::view_end && is_request(*e.kids[1]->kids[0]))
            return expr(e.kids[2]);
        if (const auto part = part_of_block(e)) return mark(*part);
        if ((e.kind == ExprKind::view_end || e.kind == ExprKind::view_offset) && is_request(*e.kids[0])) return;
        if (e.kind == ExprKind::view || is_request(e)) return all();
        for (const ExprPtr& kid : e.kids) expr(kid);
        if (e.body) expr(e.body->body);
        for (const checked::Lambda& filter : e.filters) expr(filter.body);
    }

    const checked::Module& module_;
    std::vector<bool> seen_;
    bool varies_;
};

bool is_big_endian(ir::Format format) {
    return format == ir::Format::u16be || format == ir::Format::u32be || format == ir::Format::u64be;
}

// The bytes that a part of `on datagram` writes, as ServiceCache::head has them; nothing when they are more than a
// repetition of the request's.
std::optional<std::vector<std::uint16_t>> bytes_of(const checked::Module& module, const checked::ReplyPart& part) {
    const Expr* e = part.value.get();
    std::vector<std::uint16_t> out;
    const auto constant = [&](std::uint64_t byte) {
        out.push_back(static_cast<std::uint16_t>(ir::kHeadConstant + (byte & 0xff)));
    };
    if (part.format == ir::Format::bytes) {
        if (e->kind == ExprKind::bytes_const) {
            for (const char byte : e->bytes) constant(static_cast<std::uint8_t>(byte));
            return out;
        }
        const auto place = place_of(module, *e);
        if (!place) return std::nullopt;
        for (std::size_t i = 0; i < place->size; i++) out.push_back(static_cast<std::uint16_t>(place->offset + i));
        return out;
    }
    const std::size_t width = ir::width_of(part.format);
    if (width == 0) return std::nullopt;
    const bool big = is_big_endian(part.format);
    while (e->kind == ExprKind::cast && e->type.bits >= width * 8) e = e->kids[0].get();
    // A kept reply is one datagram: number 0 of 1.
    std::optional<std::uint64_t> value;
    if (e->kind == ExprKind::int_const) value = e->value;
    if (e->kind == ExprKind::block_offset) value = 0;
    if (e->kind == ExprKind::block_tag) value = 1;
    const auto place = place_of(module, *e);
    if (!value && (!place || place->field->kind != Field::Kind::integer || place->size != width)) return std::nullopt;
    for (std::size_t i = 0; i < width; i++) {
        const std::size_t byte = big ? width - 1 - i : i;  // of the value, from the least significant on
        if (value)
            constant(*value >> (8 * byte));
        else
            out.push_back(
                static_cast<std::uint16_t>(place->offset + (place->field->big_endian ? width - 1 - byte : byte)));
    }
    return out;
}

}  // namespace

// What every reply to a datagram begins with, which is not kept but made anew for each request.
bool Checker::kept_head(const checked::Handler& datagram, checked::Service& out) {
    for (const auto& stmt : datagram.body.block) {
        for (const checked::ReplyPart& part : stmt->parts) {
            const auto bytes = bytes_of(module_, part);
            const bool near = bytes && std::ranges::all_of(*bytes, [](std::uint16_t b) {
                                  return b < ir::kKeptFixed || b >= ir::kHeadConstant;
                              });
            if (!near) {
                error(cache_begin, part.value->span, "the driver cannot write this part of a datagram's begin",
                      "it repeats constants, integers of the request's first " + std::to_string(ir::kKeptFixed) +
                          " bytes in their own width, and the datagram's number and count, numbers as bytes (`:u32be`) "
                          "and not as text (`:dec`, `:hex`); remove `cache` else");
                return false;
            }
            out.info.cache.head.insert(out.info.cache.head.end(), bytes->begin(), bytes->end());
        }
        if (stmt->kind != StmtKind::reply) {
            error(cache_begin, stmt->span, "the driver runs no statements before a datagram's begin",
                  "`on datagram` is to be one `reply` where replies are kept; remove `cache` else");
            return false;
        }
    }
    if (out.info.cache.head.size() <= ir::kMostKeptHead) return true;
    error(cache_begin, out.span, "a datagram begins with " + std::to_string(out.info.cache.head.size()) + " bytes",
          "the driver writes at most " + std::to_string(ir::kMostKeptHead) + "; remove `cache` else");
    return false;
}

// The files that replies come from have to be such that somebody notices when their bytes change.
void Checker::kept_files(const Block& block) {
    const auto look = [&](const auto& self, const Expr& e) -> void {
        if (e.kind == ExprKind::file_ref && !module_.files[e.index].info.immutable)
            error(cache_files, e.span,
                  "replies from files `" + module_.files[e.index].info.name +
                      "`, which may change while they are open, are kept",
                  "declare the files `immutable` (a new version replaces the old one by a rename), or remove `cache`");
        for (const ExprPtr& kid : e.kids) self(self, *kid);
    };
    for (const auto& stmt : block) {
        for (const ExprPtr* each : {&stmt->value, &stmt->value2, &stmt->value3})
            if (*each) look(look, **each);
        for (const checked::ReplyPart& part : stmt->parts) look(look, *part.value);
        kept_files(stmt->body);
        kept_files(stmt->otherwise);
    }
}

void Checker::check_kept(const ast::Service& n, checked::Service& out) {
    const Span span = n.cache->span;
    if (std::ranges::none_of(out.info.endpoints, [](const auto& e) { return e.via == "xdp"; }))
        return error(cache_without_xdp, span,
                     "replies are kept by the xdp engine, and the service has no such endpoint",
                     "write `udp … via xdp`, or remove `cache`");
    if (!out.udp) return;
    kept_files(out.udp->body.block);
    const std::int32_t index = out.udp->request_record;
    if (index >= 0) {
        const checked::Record& record = module_.records[static_cast<std::size_t>(index)];
        if (record.fixed_size > std::int64_t{ir::kMostKeptRequest})
            return error(cache_request, span,
                         "a request has " + std::to_string(record.fixed_size) + " bytes, and the driver looks at " +
                             std::to_string(ir::kMostKeptRequest),
                         "remove `cache`");
        Marks marks(module_, record);
        // With a key of its own, a reply depends on what that looks at, whatever else the handler repeats.
        marks.block(out.udp_key ? out.udp_key->block : out.udp->body.block);
        const std::size_t count = std::min<std::size_t>(marks.seen().size(), ir::kKeptFixed);
        for (std::size_t i = 0; i < count; i++)
            out.info.cache.compared.push_back(static_cast<std::uint8_t>(marks.seen()[i] ? 1 : 0));
    }
    if (out.datagram) kept_head(*out.datagram, out);
}

}  // namespace chainio::sema
