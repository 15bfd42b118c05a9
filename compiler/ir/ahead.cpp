#include "compiler/ir/ahead.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

template <class N>
bool reads_result(const N& n) {
    bool reads = false;
    if constexpr (requires { n.space; }) reads = reads || n.space == Space::result;
    if constexpr (requires { n.bytes.space; }) reads = reads || n.bytes.space == Space::result;
    if constexpr (requires { n.a.space; }) reads = reads || n.a.space == Space::result || n.b.space == Space::result;
    return reads;
}

// Follows what the results of calls have an influence on, statement by statement.
class Influence {
  public:
    explicit Influence(const Program& program) : regs_(program.reg_count) { walk(program.body, false); }
    std::vector<const CallChain*> calls() && { return std::move(calls_); }

  private:
    bool uses(const Stmt& stmt) const {
        bool any = std::visit([](const auto& n) { return reads_result(n); }, stmt.node);
        if (const auto* call = std::get_if<CallChain>(&stmt.node))
            any = std::ranges::any_of(call->bytes_args, [](const Slice& each) { return each.space == Space::result; });
        for_each_use(stmt, [&](const Operand& operand) { any = any || (!operand.is_imm && regs_[operand.value]); });
        return any;
    }

    // Gives whether results have a say in how far the body runs.
    bool walk(const Body& body, bool depends) {
        bool cut = false;
        for (const Stmt& stmt : body) {
            const bool influenced = depends || uses(stmt);
            // In a loop a register may have its value from another round.
            const bool marks = influenced || std::holds_alternative<CallChain>(stmt.node);
            for_each_def(stmt, [&](Reg reg) { regs_[reg] = marks || (loops_ != 0 && regs_[reg]); });
            if (const auto* call = std::get_if<CallChain>(&stmt.node)) {
                if (loops_ != 0 && !influenced) calls_.push_back(call);
            } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
                cut = walk_if(*branch, influenced) || cut;
            } else if (const auto* loop = std::get_if<Loop>(&stmt.node)) {
                cut = walk_loop(*loop, influenced) || cut;
            } else if (is_terminator(stmt)) {
                const bool breaks = std::holds_alternative<Break>(stmt.node);
                breaks_ = breaks_ || (depends && breaks);
                ends_ = ends_ || (depends && !breaks && !std::holds_alternative<Continue>(stmt.node));
                return cut || depends;
            }
            depends = depends || cut;
        }
        return cut;
    }

    bool walk_if(const If& branch, bool depends) {
        std::vector<bool> regs = regs_;
        const bool yes = walk(branch.yes, depends);
        std::swap(regs, regs_);
        const bool no = walk(branch.no, depends);
        std::transform(regs.begin(), regs.end(), regs_.begin(), regs_.begin(), std::logical_or());
        return yes || no;
    }

    // A loop that a result may end has no calls that are made whatever that is.
    bool walk_loop(const Loop& loop, bool depends) {
        const bool breaks = std::exchange(breaks_, false), ends = std::exchange(ends_, false);
        const std::size_t calls = calls_.size();
        loops_++;
        for (std::vector<bool> before; before != regs_;) {
            before = regs_;
            calls_.resize(calls);
            walk(loop.body, depends || breaks_ || ends_);
        }
        const bool left = breaks_ || ends_;
        if (left) {
            calls_.resize(calls);
            walk(loop.body, true);
        }
        loops_--;
        breaks_ = breaks;
        ends_ = ends_ || ends;
        return left;
    }

    std::vector<bool> regs_;
    std::vector<const CallChain*> calls_;
    unsigned loops_ = 0;
    bool breaks_ = false, ends_ = false;  // a result may end the loop, or the handler
};

}  // namespace

std::vector<const CallChain*> calls_ahead(const Program& program) { return Influence(program).calls(); }

}  // namespace chainio::ir
