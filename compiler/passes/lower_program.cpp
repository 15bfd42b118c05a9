#include "compiler/passes/lower_program.h"

#include "bpf-templates/chainio_step.h"

namespace chainio::passes {

ProgramLowering::ProgramLowering(ModuleContext& module, ChainContext* chain, std::string name, ir::ProgramKind kind)
    : m_(module), chain_(chain), b_(std::move(name), kind) {}

ir::Program ProgramLowering::finish() { return b_.finish(); }

void ProgramLowering::scoped(const std::function<void()>& f) {
    std::size_t mark = undo_.size();
    if (f) f();
    while (undo_.size() > mark) {
        undo_.back()();
        undo_.pop_back();
    }
}

void ProgramLowering::if_(Operand cond, const std::function<void()>& yes, const std::function<void()>& no) {
    b_.if_(cond, [&] { scoped(yes); }, [&] { scoped(no); });
}

void ProgramLowering::loop(Operand count, std::uint32_t max, const std::function<void(Operand)>& inside) {
    b_.loop(count, max, CIO_MALFORMED, [&](Operand i) { scoped([&] { inside(i); }); });
}

void ProgramLowering::once(const std::function<void()>& inside) {
    loop(Operand::imm(1), 1, [&](Operand) { inside(); });
}

void ProgramLowering::step(const checked::Step& s) {
    locals_.assign(s.body.locals.size(), {});
    local_types_ = &s.body.locals;
    env_ = &locals_;
    b_.line = s.line;
    clear_scratch();
    if (s.record) {
        Operand from = s.from ? scalar(*s.from) : Operand::imm(0);
        locals_[s.view_local] = make_view(m_.checked.records[*s.record], fixed(from), true);
    } else {
        locals_[s.view_local] = block_bytes();
    }
    block(s.body.block);
}

void ProgramLowering::body(const checked::Body& body) {
    locals_.assign(body.locals.size(), {});
    local_types_ = &body.locals;
    env_ = &locals_;
    clear_scratch();
    if (!locals_.empty() && chain_->chain.mode != ir::ChainMode::call) locals_[0] = block_bytes();
    block(body.block);
}

void ProgramLowering::entry(const checked::Step& first) {
    static const std::vector<checked::Local> none;
    local_types_ = &none;
    env_ = &locals_;
    b_.line = first.line;
    for (std::uint32_t i = 0; i < chain_->chain.state.size(); i++) {
        const checked::ExprPtr& initial = chain_->chain.state[i].initial;
        if (!initial) continue;
        bool constant = initial->kind == checked::ExprKind::int_const ||
                        initial->kind == checked::ExprKind::bool_const ||
                        initial->kind == checked::ExprKind::bytes_const;
        if (!constant) assign_state(i, eval(*initial));
    }
    queue(0, first.file, scalar(*first.at), scalar(*first.length), Operand::imm(0));
}

void ProgramLowering::header(const checked::Record& record) {
    env_ = &locals_;
    local_types_ = &record.locals;
    Value view = make_view(record, Operand::imm(0), true);
    std::uint32_t fields = 0;
    for (const checked::Field& f : record.fields) fields += is_header_field(f) ? 1 : 0;
    for (std::uint32_t i = 0; i < record.fields.size(); i++) {
        if (!is_header_field(record.fields[i])) continue;
        Operand v;
        // A field that does not exist in this file reaches chains as 0: there is no block whose failure it could be.
        if (record.fields[i].when) {
            v = choose(
                exists(view.view, i), [&] { return field(view.view, i).scalar; }, [] { return Operand::imm(0); });
        } else {
            v = field(view.view, i).scalar;
        }
        b_.add(ir::EmitInt{v, 8, 8 * fields});
    }
}

void ProgramLowering::handler(const checked::Handler& handler, bool whole) {
    const checked::Body& body = handler.body;
    locals_.assign(std::max<std::size_t>(body.locals.size(), 1), {});
    local_types_ = &body.locals;
    env_ = &locals_;
    b_.line = handler.line;
    bool is_text = !body.locals.empty() && body.locals[0].type.kind == checked::TypeKind::text;
    if (handler.request_record >= 0) {
        locals_[0] =
            make_view(m_.checked.records[static_cast<std::size_t>(handler.request_record)], Operand::imm(0), whole);
    } else if (is_text) {
        locals_[0] = text_match(m_.checked.texts[body.locals[0].type.record], block_bytes());
        b_.check(*locals_[0].present, CIO_MALFORMED);
    } else {
        locals_[0] = block_bytes();
    }
    block(body.block);
}

void ProgramLowering::request_length(const checked::Handler& handler) {
    arriving_ = true;
    local_types_ = &handler.body.locals;
    env_ = &locals_;
    b_.line = handler.line;
    const Value request =
        make_view(m_.checked.records[static_cast<std::size_t>(handler.request_record)], Operand::imm(0), false);
    b_.add(ir::Reply{{{ir::Format::u64le, view_end(request.view), {}}}});
}

}  // namespace chainio::passes
