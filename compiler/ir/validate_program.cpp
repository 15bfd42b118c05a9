#include "compiler/ir/validate_program.h"

#include <algorithm>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/cost.h"
#include "compiler/ir/values.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

using Problem = std::optional<std::string>;

// Counts and shape first, without looking at registers' values: afterwards the recursion of every later walk is
// bounded.
class Shape {
  public:
    explicit Shape(const Program& program) : program_(program), assignments_(program.reg_count, 0) {}

    Problem check() {
        if (program_.reg_count > kMaxRegs) return "more than " + std::to_string(kMaxRegs) + " registers";
        if (!program_.reg_names.empty() && program_.reg_names.size() != program_.reg_count)
            return "the register names do not fit the registers";
        if (auto problem = body(program_.body, 0, 0)) return problem;
        for (Reg counter : counters_)
            if (assignments_[counter] != 1) return "loop counter r" + std::to_string(counter) + " is written twice";
        auto vars = std::ranges::count_if(assignments_, [](std::uint32_t n) { return n > 1; });
        if (vars > static_cast<std::ptrdiff_t>(kMaxVars)) return "more than " + std::to_string(kMaxVars) + " variables";
        return {};
    }

  private:
    Problem body(const Body& statements, std::uint32_t depth, std::uint32_t loops) {
        if (depth > kMaxDepth) return "nested deeper than " + std::to_string(kMaxDepth);
        for (std::size_t i = 0; i < statements.size(); i++) {
            if (++statements_ > kMaxStmts) return "more than " + std::to_string(kMaxStmts) + " statements";
            if (auto problem = statement(statements[i], depth, loops)) return problem;
            if (i + 1 < statements.size() && is_terminator(statements[i]))
                return "a statement after the end of the flow";
        }
        return {};
    }

    Problem statement(const Stmt& stmt, std::uint32_t depth, std::uint32_t loops) {
        bool registers_ok = true;
        for_each_def(stmt, [&](Reg r) {
            registers_ok = registers_ok && r < program_.reg_count;
            if (r < program_.reg_count) assignments_[r]++;
        });
        for_each_use(stmt, [&](const Operand& op) {
            registers_ok = registers_ok && (op.is_imm || op.value < program_.reg_count);
        });
        if (!registers_ok) return "a register out of range";
        bool in_loop = loops > 0;
        if (!in_loop && (std::holds_alternative<Break>(stmt.node) || std::holds_alternative<Continue>(stmt.node)))
            return "break or continue outside of a loop";
        if (auto* loop = std::get_if<Loop>(&stmt.node)) {
            counters_.push_back(loop->counter);
            loops++;
        }
        Problem problem;
        for_each_body(stmt, [&](const Body& nested) {
            if (!problem) problem = body(nested, depth + 1, loops);
        });
        return problem;
    }

    const Program& program_;
    std::vector<std::uint32_t> assignments_;
    std::vector<Reg> counters_;
    std::uint32_t statements_ = 0;
};

// Definite assignment, ranges, and what each operation demands of its operands.
class Flow {
  public:
    explicit Flow(const ProgramContext& context) : c_(context), values_(context.program.reg_count) {}

    Problem check() { return body(c_.program.body); }

  private:
    Problem body(const Body& statements) {
        for (const Stmt& stmt : statements) {
            if (auto problem = statement(stmt)) return place(stmt, *problem);
        }
        return {};
    }

    Problem place(const Stmt& stmt, const std::string& problem) {
        if (placed_) return problem;
        placed_ = true;
        return "line " + std::to_string(stmt.line.line) + ": " + problem;
    }

    Problem statement(const Stmt& stmt) {
        std::optional<std::uint64_t> undefined;
        for_each_use(stmt, [&](const Operand& op) {
            if (!op.is_imm && !values_.defined(static_cast<Reg>(op.value))) undefined = op.value;
        });
        if (undefined) return "register r" + std::to_string(*undefined) + " is read before it is written";
        if (stmt.line.line != 0 && stmt.line.file >= std::max<std::size_t>(c_.module.sources.size(), 1))
            return "a line of an unknown source";
        if (auto* branch = std::get_if<If>(&stmt.node)) return if_statement(*branch);
        if (auto* loop = std::get_if<Loop>(&stmt.node)) return loop_statement(*loop);
        if (auto problem = std::visit([&](const auto& n) { return operation(n); }, stmt.node)) return problem;
        values_.execute(stmt);
        if (auto* check = std::get_if<CheckRange>(&stmt.node)) values_.learn(*check);
        return {};
    }

    Problem if_statement(const If& branch) {
        auto mark = values_.mark();
        if (auto problem = body(branch.yes)) return problem;
        bool yes_ends = ends_flow(branch.yes), no_ends = ends_flow(branch.no);
        auto yes = values_.changes_since(mark);
        values_.rollback(mark);
        if (yes_ends) return body(branch.no);
        if (auto problem = body(branch.no)) return problem;
        auto no = values_.changes_since(mark);
        values_.rollback(mark);
        if (no_ends) {
            values_.apply(yes);
        } else {
            values_.merge(yes, no);
        }
        return {};
    }

    Problem loop_statement(const Loop& loop) {
        if (loop.max > CIO_MAX_BLOCK) return "a loop bound above " + std::to_string(CIO_MAX_BLOCK);
        if (!valid_outcome(c_.module, loop.outcome)) return "an unknown outcome";
        std::vector<Reg> written;
        collect_defs(loop.body, written);
        if (!loop.count.is_imm && std::ranges::find(written, loop.count.value) != written.end())
            return "a loop whose body writes its count, r" + std::to_string(loop.count.value);
        for (Reg r : written)
            if (values_.defined(r)) values_.define_fresh(r);
        auto mark = values_.mark();
        values_.define_fresh(loop.counter);
        if (auto problem = body(loop.body)) return problem;
        values_.rollback(mark);
        for (Reg r : written)
            if (values_.defined(r)) values_.define_fresh(r);
        return {};
    }

    std::uint64_t fixed_size(Space space) const {
        switch (space) {
            case Space::args: return c_.layout.arg_bytes_size;
            case Space::state: return c_.layout.state_size;
            case Space::literal: return c_.module.literals.size();
            case Space::block:
            case Space::result: return 0;
        }
        return 0;
    }

    Problem in_range(Space space, const Operand& offset, const Operand& length) {
        if (space == Space::result) {
            if (c_.program.kind != ProgramKind::handler) return "the result space outside of a handler";
            return {};
        }
        if (offset.is_imm && length.is_imm) {
            std::uint64_t size = fixed_size(space);
            if (offset.value <= size && length.value <= size - offset.value) return {};
        }
        if (values_.in_range(space, offset, length)) return {};
        return "an access that no range check covers";
    }
    Problem slice(const Slice& s) { return in_range(s.space, s.offset, s.length); }
    Problem width(std::uint32_t w) {
        if (w < 1 || w > 8) return "a width outside of 1..8";
        return {};
    }
    Problem bound(std::uint32_t max) {
        if (max > CIO_MAX_BLOCK) return "a length bound above " + std::to_string(CIO_MAX_BLOCK);
        return {};
    }
    Problem outcome(std::uint32_t o) {
        if (!valid_outcome(c_.module, o)) return "an unknown outcome";
        return {};
    }
    Problem space_of_check(Space space) {
        if (space == Space::result && c_.program.kind != ProgramKind::handler)
            return "the result space outside of a handler";
        return {};
    }
    static Problem first(std::initializer_list<Problem> problems) {
        for (const Problem& p : problems)
            if (p) return p;
        return {};
    }

    template <AnyOf<Move, Unary, Binary, Select, GetInput, End, Break, Continue, If, Loop> N>
    Problem operation(const N&) {
        return {};
    }
    Problem operation(const GetArg& n) {
        if (c_.chain == nullptr || n.index >= c_.chain->arg_slots)
            return "an argument slot that the chain does not have";
        return {};
    }
    Problem operation(const Load& n) {
        return first({width(n.width), in_range(n.space, n.offset, Operand::imm(n.width))});
    }
    Problem operation(const StoreState& n) {
        if (!n.offset.is_imm) return "a store at an offset that is not constant";
        return first({width(n.width), in_range(Space::state, n.offset, Operand::imm(n.width))});
    }
    Problem operation(const Check& n) { return outcome(n.outcome); }
    Problem operation(const CheckRange& n) { return first({outcome(n.outcome), space_of_check(n.space)}); }
    Problem operation(const Varint& n) {
        if (n.value == n.length) return "a varint whose value and length are one register";
        return first({outcome(n.outcome), space_of_check(n.space)});
    }
    Problem operation(const IntOfBytes& n) { return slice(n.bytes); }
    Problem operation(const Compare& n) { return first({slice(n.a), slice(n.b), bound(n.max)}); }
    Problem operation(const Hash& n) { return first({slice(n.bytes), bound(n.max)}); }
    Problem operation(const FindByte& n) { return first({slice(n.bytes), bound(n.max)}); }
    Problem operation(const ParseDecimal& n) { return first({slice(n.bytes), outcome(n.outcome)}); }
    Problem operation(const CopyToState& n) {
        return first({slice(n.src), bound(n.max), in_range(Space::state, n.dst_offset, n.src.length)});
    }
    Problem limit(std::uint32_t l) {
        if (l > c_.layout.out_size) return "an emit limit above the out area";
        return {};
    }
    Problem operation(const EmitInt& n) { return first({width(n.width), limit(n.limit)}); }
    Problem operation(const EmitBytes& n) { return first({slice(n.bytes), bound(n.max), limit(n.limit)}); }
    Problem operation(const Next& n) {
        bool queues = c_.program.kind == ProgramKind::entry || c_.program.kind == ProgramKind::step;
        if (!queues || c_.chain == nullptr) return "a read queued outside of a chain's entry or step";
        if (n.step >= c_.chain->steps.size()) return "a read for an unknown step";
        auto files =
            std::ranges::count_if(c_.chain->params, [](const Param& p) { return p.kind == Param::Kind::file; });
        if (n.file >= files) return "a read of an unknown file parameter";
        return {};
    }
    Problem operation(const Return& n) {
        ResultKind expected = c_.chain == nullptr ? ResultKind::none : c_.chain->result;
        if (n.kind != expected) return "a result of the wrong kind";
        return n.kind == ResultKind::slice ? slice(n.slice) : Problem{};
    }
    Problem operation(const Fail& n) { return outcome(n.outcome); }
    Problem operation(const Prefetch& n) {
        if (c_.program.kind != ProgramKind::shadow) return "a prefetch outside of a shadow chain";
        if (n.args.size() > 4) return "more than 4 arguments of a prefetch";
        if (n.kind == PrefetchKind::mark) return {};
        if (is_call(n.kind)) {
            if (n.target >= c_.module.chains.size()) return "a prefetch through an unknown chain";
            return {};
        }
        if (n.kind != PrefetchKind::same && n.target >= c_.module.files.size())
            return "a prefetch from an unknown file class";
        if (n.kind == PrefetchKind::sibling && n.name.space != Space::literal)
            return "a sibling's ending that is no literal";
        return n.kind == PrefetchKind::same ? Problem{} : slice(n.name);
    }
    Problem operation(const CallChain& n) {
        if (c_.program.kind != ProgramKind::handler) return "a chain called outside of a handler";
        if (n.chain >= c_.module.chains.size()) return "a call of an unknown chain";
        if (n.ok == n.scalar) return "a call whose results are one register";
        for (const Slice& s : n.bytes_args)
            if (auto problem = slice(s)) return problem;
        for (const CallFile& file : n.files) {
            if (file.file_class >= c_.module.files.size()) return "a call with a file of an unknown class";
            if (auto problem = slice(file.name)) return problem;
        }
        return {};
    }
    Problem operation(const Reply& n) {
        if (c_.program.kind != ProgramKind::handler) return "a reply outside of a handler";
        if (n.parts.size() > kMaxReplyParts) return "more than " + std::to_string(kMaxReplyParts) + " parts of a reply";
        for (const ReplyPart& part : n.parts)
            if (part.format == Format::bytes)
                if (auto problem = slice(part.bytes)) return problem;
        return {};
    }
    Problem operation(const Skip&) {
        return c_.program.kind == ProgramKind::handler ? Problem{} : "bytes skipped outside of a handler";
    }

    const ProgramContext& c_;
    Values values_;
    bool placed_ = false;
};

}  // namespace

bool valid_outcome(const Module& module, std::uint32_t outcome) {
    if (outcome >= CIO_USER) return outcome - CIO_USER < module.reasons.size();
    return outcome != CIO_OK && outcome <= CIO_UNSUPPORTED;
}

std::optional<std::string> validate_program(const ProgramContext& context) {
    if (auto problem = Shape(context.program).check()) return problem;
    if (auto problem = Flow(context).check()) return problem;
    if (instruction_bound(context.program) > kMaxCost)
        return "one run may take more than " + std::to_string(kMaxCost) + " instructions";
    return {};
}

}  // namespace chainio::ir
