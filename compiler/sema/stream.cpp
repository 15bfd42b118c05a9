// Where requests end in a stream: behind fields of a fixed size, behind fields that say how long they are, behind the
// literal that closes a text rule.
#include <set>
#include <utility>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::ExprPtr;
using checked::Field;

namespace {

// Looks for what nobody knows before a request's end: how long what there is of it is.
class NeedsEnd {
  public:
    explicit NeedsEnd(const checked::Module& module) : module_(module) {}
    bool record(std::uint32_t index) {
        const auto& fields = module_.records[index].fields;
        bool needs = false;
        for (std::uint32_t i = 0; i < fields.size(); i++)
            if (fields[i].kind != Field::Kind::derived) needs |= field(index, i);
        return needs;
    }

  private:
    bool field(std::uint32_t record, std::uint32_t index) {
        if (!seen_.emplace(record, index).second) return false;
        const Field& f = module_.records[record].fields[index];
        if (f.kind == Field::Kind::derived) return expr(f.value);
        bool needs = false;
        for (const ExprPtr* each : {&f.at, &f.length, &f.count, &f.when}) needs |= expr(*each);
        return needs || (f.kind == Field::Kind::record && this->record(f.record));
    }
    bool expr(const ExprPtr& e) {
        if (!e) return false;
        if (e->kind == ExprKind::block_length || e->kind == ExprKind::block_bytes) return true;
        if (e->kind == ExprKind::view && record(e->type.record)) return true;
        if (e->kind == ExprKind::bytes_records && record(e->type.element->record)) return true;
        if (e->kind == ExprKind::field && field(e->kids[0]->type.record, e->index)) return true;
        bool needs = e->body && expr(e->body->body);
        for (const ExprPtr& kid : e->kids) needs |= expr(kid);
        for (const checked::Lambda& filter : e->filters) needs |= expr(filter.body);
        return needs;
    }

    const checked::Module& module_;
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen_;
};

}  // namespace

ir::Framing Checker::framing(const ast::Request& request, const checked::Handler& made) {
    ir::Framing out;
    if (made.request_record >= 0) {
        const std::int64_t size = module_.records[static_cast<std::size_t>(made.request_record)].fixed_size;
        if (size < 0) return {};
        out.bytes = static_cast<std::uint32_t>(size);
    }
    out.end = end_of(request);
    return out;
}

std::string Checker::end_of(const ast::Request& request) {
    for (const auto& field : request.fields) {
        const auto* named = std::get_if<ast::NamedType>(&field.type.base);
        const auto rule = field.kind == ast::Field::Kind::data && named ? request_text(*named) : std::nullopt;
        if (!rule) continue;
        const auto& items = module_.texts[*rule].items;
        const bool closed = !items.empty() && items.back().kind == checked::TextItem::Kind::literal;
        return closed ? items.back().literals[0] : "\n";
    }
    return {};
}

void Checker::stream_framing(const ast::Request& request, checked::Service& out) {
    out.info.tcp_framing = framing(request, *out.tcp);
    if (out.tcp->request_record < 0) return;
    const auto record = static_cast<std::uint32_t>(out.tcp->request_record);
    out.measured = module_.records[record].fixed_size < 0 && !NeedsEnd(module_).record(record);
    if (out.measured) out.info.tcp_framing.end = end_of(request);
}

}  // namespace chainio::sema
