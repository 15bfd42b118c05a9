#include "compiler/passes/begun_replies.h"

#include <algorithm>

#include "compiler/ir/visit.h"

namespace chainio::passes {
namespace {

bool replies(const ir::Body& body) {
    return std::ranges::any_of(body, [](const ir::Stmt& stmt) {
        bool any = std::holds_alternative<ir::Reply>(stmt.node);
        ir::for_each_body(stmt, [&](const ir::Body& nested) { any = any || replies(nested); });
        return any;
    });
}

bool fails(const ir::Body& body) { return !body.empty() && std::holds_alternative<ir::Fail>(body.back().node); }

// Takes the mark off calls that nothing was replied before; says whether something may have been behind the body.
bool settle(ir::Body& body, bool begun) {
    for (ir::Stmt& stmt : body) {
        if (auto* call = std::get_if<ir::CallChain>(&stmt.node)) call->closes = call->closes && begun;
        // A round of a loop may come after another one.
        const auto* loop = std::get_if<ir::Loop>(&stmt.node);
        const bool before = begun || (loop != nullptr && replies(loop->body));
        ir::for_each_body(stmt, [&](ir::Body& nested) {
            const bool behind = settle(nested, before);
            begun = begun || (behind && !fails(nested));
        });
        begun = begun || std::holds_alternative<ir::Reply>(stmt.node);
    }
    return begun;
}

}  // namespace

void close_begun_replies(ir::Program& program) { settle(program.body, false); }

}  // namespace chainio::passes
