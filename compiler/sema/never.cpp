// What of a chain never runs: steps that nothing goes to, and a `done` that no step leaves a way to.
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Block;
using checked::Stmt;
using checked::StmtKind;

namespace {

template <typename Visit>
void each_read(const Block& block, const Visit& visit) {
    for (const auto& stmt : block) {
        if (stmt->kind == StmtKind::next) visit(*stmt);
        each_read(stmt->body, visit);
        each_read(stmt->otherwise, visit);
    }
}

std::vector<bool> steps_that_run(const checked::Chain& chain) {
    std::vector<bool> runs(chain.steps.size());
    std::vector<std::uint32_t> left{0};
    while (!left.empty()) {
        const std::uint32_t step = left.back();
        left.pop_back();
        if (runs[step]) continue;
        runs[step] = true;
        each_read(chain.steps[step].body.block, [&](const Stmt& read) { left.push_back(read.index); });
    }
    return runs;
}

}  // namespace

void Checker::warn_unreached(const ChainScope& chain) {
    const std::vector<bool> runs = steps_that_run(*chain.out);
    bool reaches_done = false;
    for (std::uint32_t i = 0; i < runs.size(); i++) {
        reaches_done |= runs[i] && !chain.step_ends[i];
        if (runs[i]) continue;
        const ast::Name& name = chain.ast->steps[i].name;
        warn(unreachable_code, name.span, "step `" + name.text + "` never runs: no step that runs goes to it",
             "remove it, or go to it with `goto` or `next`");
    }
    if (chain.ast->done && !reaches_done)
        warn(unreachable_code, chain.ast->done->span, "`done` never runs: every step goes on or ends the chain",
             "remove it, or let a step end without `goto`, `return` and `fail`");
}

}  // namespace chainio::sema
