#include "compiler/passes/begun_replies.h"

#include <type_traits>
#include <utility>

#include "compiler/ir/visit.h"

namespace chainio::passes {
namespace {

// Whether something may have been replied where the flow goes on: behind a body, and where `break` or `continue` takes
// it. Both are false where the flow does not come there.
struct Begun {
    bool behind = false, left = false;
    bool any() const { return behind || left; }
};

// Takes the mark off calls that nothing was replied before; only looks where the body is constant.
template <class Body>
Begun settle(Body& body, bool begun) {
    constexpr bool only_looks = std::is_const_v<Body>;
    bool left = false;
    for (auto& stmt : body) {
        if constexpr (!only_looks)
            if (auto* call = std::get_if<ir::CallChain>(&stmt.node)) call->closes = call->closes && begun;
        begun = begun || std::holds_alternative<ir::Reply>(stmt.node);
        if (auto* branch = std::get_if<ir::If>(&stmt.node)) {
            const Begun yes = settle(branch->yes, begun), no = settle(branch->no, begun);
            begun = yes.behind || no.behind;
            left = left || yes.left || no.left;
        }
        if (auto* loop = std::get_if<ir::Loop>(&stmt.node)) {
            // A round may come after another one, and there may be none.
            begun = begun || settle(std::as_const(loop->body), begun).any();
            if constexpr (!only_looks) settle(loop->body, begun);
        }
        left = left || (begun && (std::holds_alternative<ir::Break>(stmt.node) ||
                                  std::holds_alternative<ir::Continue>(stmt.node)));
        if (ir::is_terminator(stmt)) return {false, left};
    }
    return {begun, left};
}

}  // namespace

void close_begun_replies(ir::Program& program) { settle(program.body, false); }

}  // namespace chainio::passes
