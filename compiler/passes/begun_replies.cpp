#include "compiler/passes/begun_replies.h"

#include "compiler/passes/flow.h"

namespace chainio::passes {
namespace {

bool replies(const ir::Stmt& stmt) { return std::holds_alternative<ir::Reply>(stmt.node); }

// Takes the mark off a call that nothing was replied before.
void settle(ir::Stmt& stmt, bool begun) {
    if (auto* call = std::get_if<ir::CallChain>(&stmt.node)) call->closes = call->closes && begun;
}

}  // namespace

void close_begun_replies(ir::Program& program) { follow(program.body, false, replies, settle); }

}  // namespace chainio::passes
