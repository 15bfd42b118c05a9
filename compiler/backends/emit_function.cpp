#include "compiler/backends/emit_function.h"

#include <fmt/format.h>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/visit.h"

namespace chainio::backends {

namespace {

// A few rounds of a body that is arithmetic and loads: a call a round would cost more than the body, and what the
// verifier follows stays little.
constexpr std::uint32_t kFewRounds = 8, kShortBody = 16;

std::uint32_t plain_statements(const ir::Body& body) {
    std::uint32_t count = 0;
    for (const ir::Stmt& stmt : body) {
        const bool plain = std::visit(
            []<class N>(const N&) {
                return ir::AnyOf<N, ir::Move, ir::Unary, ir::Binary, ir::Select, ir::GetInput, ir::GetArg, ir::Load,
                                 ir::Check, ir::CheckRange, ir::If, ir::Break, ir::Continue>;
            },
            stmt.node);
        count += plain ? 1 : kShortBody + 1;
        ir::for_each_body(stmt, [&](const ir::Body& nested) { count += plain_statements(nested); });
    }
    return count;
}

bool is_short(const ir::Loop& loop) { return loop.max <= kFewRounds && plain_statements(loop.body) <= kShortBody; }

}  // namespace

std::string FunctionEmitter::program() {
    const ir::Program& program = artifact_.module.programs[number_];
    std::string text, head = "\n";
    body(program.body, {}, text);
    last_line_ = {};
    if (!program.body.empty()) line(program.body.front().line, head);
    return fmt::format(
        "{}\n/* {} */{}CIO_PROGRAM({}) {{ CIO_ENTER {}CIO_CHECK(CIO_BLOCK_LENGTH <= CIO_MAX_BLOCK, {});{}\nreturn "
        "CIO_STOP; }}\n",
        functions_, program.name, head, number_, locals(0), static_cast<int>(CIO_MALFORMED), text);
}

std::string FunctionEmitter::native_handler() {
    const ir::Program& program = artifact_.module.programs[number_];
    std::string text, head = "\n";
    if (!program.body.empty()) line(program.body.front().line, head);
    last_line_ = {};
    body(program.body, {}, text);
    return fmt::format(
        "\n/* {} */{}CIO_NATIVE_HANDLER({}) {{ {}switch (at_) {{ case 0: CIO_CHECK(CIO_BLOCK_LENGTH <= CIO_MAX_BLOCK, "
        "{});{}\n}} "
        "return CIO_STOP; }}\n",
        program.name, head, number_, locals(0), static_cast<int>(CIO_MALFORMED), text);
}

void FunctionEmitter::body(const ir::Body& statements, Scope scope, std::string& out) {
    for (const ir::Stmt& statement : statements) {
        line(statement.line, out);
        out += ' ';
        out += std::visit([&](const auto& node) { return stmt(node, scope); }, statement.node);
    }
}

// Line numbers are of the canonical form, so that both forms of a spec give the same bytes. The C of one such line
// stands on one line, whatever its length, as #line names the next line only.
void FunctionEmitter::line(const ir::Line& at, std::string& out) {
    if (at.line == 0 || at.file >= artifact_.module.sources.size()) return;
    if (at.line == last_line_.line && at.file == last_line_.file) return;
    last_line_ = at;
    out += fmt::format("{}#line {} \"", out.ends_with('\n') ? "" : "\n", at.line);
    for (char c : artifact_.module.sources[at.file]) {
        if (c == '"' || c == '\\') out += '\\';
        out += c == '\n' || c == '\r' ? '?' : c;
    }
    out += "\"\n";
}

std::string FunctionEmitter::locals(std::uint32_t function) const {
    std::string names;
    for (std::size_t r = 0; r < placement_.regs.size(); r++) {
        if (placement_.regs[r].is_slot || placement_.function_of[r] != function) continue;
        names += fmt::format("{}r{}", names.empty() ? "u64 " : ", ", r);
    }
    return names.empty() ? "" : names + "; ";
}

std::string FunctionEmitter::loop_function(const ir::Loop& loop, std::uint32_t function) {
    std::string name = fmt::format("cio_p{}_l{}", number_, function);
    std::string text, head = "\n";
    last_line_ = {};
    if (!loop.body.empty()) line(loop.body.front().line, head);
    body(loop.body, {function, false}, text);
    last_line_ = {};
    functions_ += fmt::format("{}CIO_{}_BODY({}) {{ CIO_ENTER {}{}{}\nreturn CIO_GO; }}\n", head,
                              is_short(loop) ? "SHORT" : "LOOP", name, locals(function), set(loop.counter, "i"), text);
    if (loop.max > kLongLoop) functions_ += fmt::format("CIO_LOOP_PIECE({}, {})\n", name, kLoopPiece);
    return name;
}

std::string FunctionEmitter::reg(ir::Reg r) const {
    if (calls_ != nullptr) return fmt::format("CIO_KEPT({})", r);
    const Place& place = placement_.regs[r];
    if (!place.is_slot) return fmt::format("r{}", r);
    return fmt::format("{}({})", place.slot < kFirstSpill ? "CIO_VAR" : "CIO_SPILLED", place.slot);
}

std::string FunctionEmitter::set(ir::Reg r, std::string_view value) const {
    return fmt::format("{} = {};", reg(r), value);
}

std::string FunctionEmitter::operand(const ir::Operand& op) const {
    if (!op.is_imm) return reg(static_cast<ir::Reg>(op.value));
    return op.value < 65536 ? fmt::format("{}ull", op.value) : fmt::format("{:#x}ull", op.value);
}

std::string FunctionEmitter::at(ir::Space space, const ir::Operand& offset) const {
    // A constant outside of every block is behind a check that always fails; masked, it suits the BPF verifier as well.
    bool fixed = offset.is_imm && offset.value < CIO_MAX_BLOCK;
    return fmt::format("cio_{}_{}({})", fixed ? "fix" : "at", space_word(space), operand(offset));
}

std::string FunctionEmitter::size_of(ir::Space space) const {
    switch (space) {
        case ir::Space::block: return "CIO_BLOCK_LENGTH";
        case ir::Space::args: return "CIO_ARG_BYTES_SIZE";
        case ir::Space::state: return "CIO_STATE_SIZE";
        case ir::Space::literal: return fmt::format("{}", artifact_.module.literals.size());
        case ir::Space::result: return "c->result_length";
    }
    return "0";
}

std::string FunctionEmitter::check(std::string_view condition, std::uint32_t outcome) {
    return fmt::format("CIO_CHECK({}, {});", condition, outcome);
}

// A result may have given way to a shorter one since its range was checked.
std::string FunctionEmitter::check_result(const ir::Slice& slice) const {
    if (slice.space != ir::Space::result) return "";
    return check(fmt::format("cio_inside_result(m, {}, {})", operand(slice.offset), operand(slice.length)),
                 CIO_MALFORMED) +
           " ";
}

std::string FunctionEmitter::halt() { return fmt::format("CIO_HALT({})", ++halts_); }

std::string FunctionEmitter::check_max(const ir::Slice& slice, std::uint32_t max) const {
    if (slice.length.is_imm && slice.length.value <= max) return check_result(slice);
    return check_result(slice) + check(fmt::format("{} <= {}", operand(slice.length), max), CIO_OVERFLOW) + " ";
}

std::string FunctionEmitter::stmt(const ir::If& n, Scope scope) {
    std::string text = fmt::format("if ({}) {{", operand(n.cond));
    body(n.yes, scope, text);
    if (!n.no.empty()) {
        text += " } else {";
        body(n.no, scope, text);
    }
    // What follows may be on a line that only one of the branches has announced.
    last_line_ = {};
    return text + " }";
}

std::string FunctionEmitter::stmt(const ir::Loop& n, Scope scope) {
    std::string count = operand(n.count);
    std::string head =
        n.count.is_imm && n.count.value <= n.max ? "" : check(fmt::format("{} <= {}", count, n.max), n.outcome) + " ";
    if (placement_.halting.contains(&n)) {
        std::string text = fmt::format("{0}for ({1} = 0; {1} < {2}; {1}++) {{", head, reg(n.counter), count);
        body(n.body, {scope.function, true}, text);
        last_line_ = {};
        return text + " }";
    }
    auto found = placement_.functions.find(&n);
    if (found == placement_.functions.end() || calls_ != nullptr) {
        std::string text = fmt::format("{}CIO_ROUNDS({}, {}, 1) {{ {}", head, n.max, count, set(n.counter, "i_"));
        body(n.body, {scope.function, true}, text);
        last_line_ = {};
        return text + " }";
    }
    ir::Line here = last_line_;
    std::string name = loop_function(n, found->second);
    last_line_ = here;
    if (n.max <= kLongLoop) return fmt::format("{}CIO_LOOP({}, {}, {})", head, name, n.max, count);
    return fmt::format("{}CIO_LONG_LOOP({}, {}, {}, {})", head, name, n.max, count, kLoopPiece);
}

std::string FunctionEmitter::stmt(const ir::Break&, Scope scope) {
    return scope.inline_loop ? "break;" : "return CIO_BREAK;";
}

std::string FunctionEmitter::stmt(const ir::Continue&, Scope scope) {
    return scope.inline_loop ? "continue;" : "return CIO_GO;";
}

}  // namespace chainio::backends
