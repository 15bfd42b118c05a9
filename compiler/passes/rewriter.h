// The walk that the passes share: statements in order, value numbers and proven ranges followed (ir/values.h), bodies
// rebuilt.
#pragma once
#include "compiler/ir/values.h"
#include "compiler/ir/visit.h"

namespace chainio::passes {

class Rewriter {
  public:
    explicit Rewriter(ir::Program& program)
        : program_(program), values_(program.reg_count), assignments_(program.reg_count, 0) {}
    virtual ~Rewriter() = default;
    void run();

  protected:
    enum class Verdict { keep, drop, replace_by_branch };
    // Called before the statement's effect is applied; may change it. For an If, `replace_by_branch` with taken_ puts
    // that branch's statements in its place.
    virtual Verdict visit(ir::Stmt& stmt) = 0;
    // A nested body begins or ends; `stmt` is the If or Loop, `branch` 0 for yes and a loop's body, 1 for no.
    virtual void enter(const ir::Stmt&, int) {}
    virtual void leave(const ir::Stmt&, int) {}
    bool taken_ = false;

    bool written_once(ir::Reg r) const { return assignments_[r] == 1; }

    ir::Program& program_;
    ir::Values values_;

  private:
    ir::Body body(ir::Body&&);
    static void spill(ir::Body& statements, std::size_t kept, ir::Body& to);
    void keep(ir::Stmt&);
    void branch(ir::Stmt&);
    void loop(ir::Stmt&);
    std::vector<std::uint32_t> assignments_;
};

}  // namespace chainio::passes
