#include "compiler/passes/fold.h"

#include <algorithm>
#include <optional>
#include <span>

#include "compiler/ir/arith.h"
#include "compiler/passes/rewriter.h"

namespace chainio::passes {
namespace {

using ir::BinOp;
using ir::Operand;
using ir::Reg;

class Fold : public Rewriter {
  public:
    explicit Fold(ir::Program& program) : Rewriter(program), sources_(program.reg_count, Operand::imm(0)) {}

  private:
    Verdict visit(ir::Stmt& stmt) override {
        if (auto* loop = std::get_if<ir::Loop>(&stmt.node)) {
            loop->count = simplest_count(*loop);
        } else {
            ir::for_each_use(stmt, [&](Operand& op) { op = simplest(op); });
        }
        if (auto* n = std::get_if<ir::Unary>(&stmt.node)) {
            if (n->a.is_imm) stmt.node = ir::Move{n->dst, Operand::imm(ir::evaluate(n->op, n->a.value))};
        } else if (auto* binary = std::get_if<ir::Binary>(&stmt.node)) {
            if (auto known = result_of(*binary)) stmt.node = ir::Move{binary->dst, *known};
        } else if (auto* select = std::get_if<ir::Select>(&stmt.node)) {
            if (select->cond.is_imm || select->a == select->b)
                stmt.node =
                    ir::Move{select->dst, select->cond.is_imm && select->cond.value == 0 ? select->b : select->a};
        } else if (auto* check = std::get_if<ir::Check>(&stmt.node); check != nullptr && check->cond.is_imm) {
            if (check->cond.value != 0) return Verdict::drop;
            stmt.node = ir::Fail{check->outcome};
        } else if (auto* branch = std::get_if<ir::If>(&stmt.node)) {
            if (branch->cond.is_imm) {
                taken_ = branch->cond.value != 0;
                return Verdict::replace_by_branch;
            }
        } else if (auto* loop = std::get_if<ir::Loop>(&stmt.node); loop != nullptr && loop->count.is_imm) {
            if (loop->count.value == 0) return Verdict::drop;
            if (loop->count.value > loop->max) stmt.node = ir::Fail{loop->outcome};
        }
        if (auto* move = std::get_if<ir::Move>(&stmt.node)) {
            if (!move->src.is_imm && move->src.value == move->dst) return Verdict::drop;
            sources_[move->dst] = move->src;
        }
        return Verdict::keep;
    }

    // What the operand is known to be: a constant, or the register that it was copied from while that still has the
    // value; none of `changing`, which are about to get others.
    Operand simplest(Operand op, std::span<const Reg> changing = {}) const {
        if (op.is_imm) return op;
        ir::Value v = values_.value(op);
        if (v.is_const()) return Operand::imm(v.disp);
        Operand source = op;
        for (int hops = 0; hops < 8; hops++) {
            source = sources_[source.value];
            if (source.is_imm || !values_.defined(static_cast<Reg>(source.value)) || values_.value(source) != v) break;
            if (std::ranges::find(changing, source.value) == changing.end()) op = source;
        }
        return op;
    }

    // A loop's body does not write its count, so a copy of what it writes stays a copy.
    Operand simplest_count(const ir::Loop& loop) const {
        if (loop.count.is_imm) return loop.count;
        std::vector<Reg> written;
        ir::collect_defs(loop.body, written);
        return simplest(loop.count, written);
    }

    std::optional<Operand> result_of(const ir::Binary& n) const {
        if (n.a.is_imm && n.b.is_imm) return Operand::imm(ir::evaluate(n.op, n.a.value, n.b.value));
        if (auto same = of_related(n)) return same;
        if (n.b.is_imm) return with_constant(n.op, n.a, n.b.value, true);
        if (n.a.is_imm) return with_constant(n.op, n.b, n.a.value, false);
        return {};
    }

    // Both operands come from one value: their difference is known.
    std::optional<Operand> of_related(const ir::Binary& n) const {
        ir::Value a = values_.value(n.a), b = values_.value(n.b);
        if (a.root != b.root) return {};
        bool same = a.disp == b.disp;
        switch (n.op) {
            case BinOp::sub: return Operand::imm(a.disp - b.disp);
            case BinOp::eq: return Operand::imm(same ? 1 : 0);
            case BinOp::ne: return Operand::imm(same ? 0 : 1);
            case BinOp::ult:
            case BinOp::slt: return same ? std::optional(Operand::imm(0)) : std::nullopt;
            case BinOp::ule:
            case BinOp::sle: return same ? std::optional(Operand::imm(1)) : std::nullopt;
            case BinOp::bit_and:
            case BinOp::bit_or:
            case BinOp::umin:
            case BinOp::umax: return same ? std::optional(n.a) : std::nullopt;
            case BinOp::bit_xor: return same ? std::optional(Operand::imm(0)) : std::nullopt;
            default: return {};
        }
    }

    static std::optional<Operand> with_constant(BinOp op, Operand x, std::uint64_t c, bool on_the_right) {
        constexpr std::uint64_t all = ~std::uint64_t{0};
        switch (op) {
            case BinOp::add:
            case BinOp::bit_or:
            case BinOp::bit_xor:
            case BinOp::umax: return c == 0 ? std::optional(x) : std::nullopt;
            case BinOp::mul: return c == 1 ? std::optional(x) : c == 0 ? std::optional(Operand::imm(0)) : std::nullopt;
            case BinOp::bit_and:
                return c == all ? std::optional(x) : c == 0 ? std::optional(Operand::imm(0)) : std::nullopt;
            case BinOp::umin:
                return c == 0 ? std::optional(Operand::imm(0)) : c == all ? std::optional(x) : std::nullopt;
            case BinOp::sub:
            case BinOp::shl:
            case BinOp::lshr:
            case BinOp::ashr: return on_the_right && c == 0 ? std::optional(x) : std::nullopt;
            case BinOp::udiv: return on_the_right && c == 1 ? std::optional(x) : std::nullopt;
            case BinOp::ult: return on_the_right && c == 0 ? std::optional(Operand::imm(0)) : std::nullopt;
            case BinOp::ule:
                return !on_the_right && c == 0    ? std::optional(Operand::imm(1))
                       : on_the_right && c == all ? std::optional(Operand::imm(1))
                                                  : std::nullopt;
            default: return {};
        }
    }

    std::vector<Operand> sources_;  // what each register was last copied from; an immediate says nothing
};

}  // namespace

void fold(const ir::Module&, ir::Program& program) { Fold(program).run(); }

}  // namespace chainio::passes
