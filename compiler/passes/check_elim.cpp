#include "compiler/passes/check_elim.h"

#include <map>
#include <optional>

#include "compiler/passes/rewriter.h"

namespace chainio::passes {
namespace {

using ir::Operand;

class Checks : public Rewriter {
  public:
    Checks(const ir::Module& module, ir::Program& program) : Rewriter(program), literals_(module.literals.size()) {}

  private:
    Verdict visit(ir::Stmt& stmt) override {
        if (auto* range = std::get_if<ir::CheckRange>(&stmt.node)) return range_check(*range);
        if (auto* check = std::get_if<ir::Check>(&stmt.node)) {
            if (auto known = truth(check->cond)) {
                if (*known) return Verdict::drop;
                stmt.node = ir::Fail{check->outcome};
                return Verdict::keep;
            }
            assume(values_.value(check->cond), true);
        } else if (auto* branch = std::get_if<ir::If>(&stmt.node)) {
            if (auto known = truth(branch->cond)) {
                taken_ = *known;
                return Verdict::replace_by_branch;
            }
        }
        return Verdict::keep;
    }

    Verdict range_check(const ir::CheckRange& check) {
        bool literal = check.space == ir::Space::literal && check.offset.is_imm && check.length.is_imm;
        if (literal && check.offset.value <= literals_ && check.length.value <= literals_ - check.offset.value)
            return Verdict::drop;
        return values_.in_range(check.space, check.offset, check.length) ? Verdict::drop : Verdict::keep;
    }

    void enter(const ir::Stmt& stmt, int side) override {
        auto* branch = std::get_if<ir::If>(&stmt.node);
        scopes_.push_back({trail_.size(), branch != nullptr ? values_.value(branch->cond) : ir::Value{}});
        assume(scopes_.back().condition, side == 0);
    }
    void leave(const ir::Stmt& stmt, int side) override {
        Scope scope = scopes_.back();
        scopes_.pop_back();
        while (trail_.size() > scope.trail) {
            truths_.erase(trail_.back());
            trail_.pop_back();
        }
        // When one side does not come back, the other side's condition holds from here on.
        auto* branch = std::get_if<ir::If>(&stmt.node);
        if (branch == nullptr || side != 1) return;
        bool yes_ends = ir::ends_flow(branch->yes), no_ends = ir::ends_flow(branch->no);
        if (yes_ends != no_ends) assume(scope.condition, no_ends);
    }

    using Key = std::pair<std::uint32_t, std::uint64_t>;
    std::optional<bool> truth(const Operand& cond) const {
        ir::Value v = values_.value(cond);
        if (v.is_const()) return v.disp != 0;
        auto found = truths_.find({v.root, v.disp});
        return found == truths_.end() ? std::nullopt : std::optional(found->second);
    }
    void assume(ir::Value v, bool holds) {
        if (v.is_const()) return;
        auto [at, inserted] = truths_.try_emplace({v.root, v.disp}, holds);
        if (inserted) trail_.push_back(at);
    }

    std::size_t literals_;
    std::map<Key, bool> truths_;
    std::vector<std::map<Key, bool>::iterator> trail_;
    struct Scope {
        std::size_t trail;
        ir::Value condition;  // as it was where the If stands
    };
    std::vector<Scope> scopes_;
};

}  // namespace

void eliminate_checks(const ir::Module& module, ir::Program& program) { Checks(module, program).run(); }

}  // namespace chainio::passes
