// Whether something may have happened where the flow of a body goes on.
#pragma once
#include <type_traits>
#include <utility>
#include <variant>

#include "compiler/ir/visit.h"

namespace chainio::passes {

// Behind a body, and where `break` or `continue` takes the flow. Both are false where it does not come there.
struct Happened {
    bool behind = false, left = false;
    bool any() const { return behind || left; }
};

struct LookAtNothing {
    void operator()(const ir::Stmt&, bool) const {}
};

// `happens(stmt)`: it does so at this statement. `look(stmt, before)` has each statement once, with whether it may have
// happened before that: in a loop, in an earlier round, too.
template <class Body, class Happens, class Look = LookAtNothing>
Happened follow(Body& body, bool before, const Happens& happens, const Look& look = {}) {
    bool left = false;
    for (auto& stmt : body) {
        look(stmt, before);
        before = before || happens(stmt);
        if (auto* branch = std::get_if<ir::If>(&stmt.node)) {
            const Happened yes = follow(branch->yes, before, happens, look);
            const Happened no = follow(branch->no, before, happens, look);
            before = yes.behind || no.behind;
            left = left || yes.left || no.left;
        }
        if (auto* loop = std::get_if<ir::Loop>(&stmt.node)) {
            before = before || follow(std::as_const(loop->body), before, happens, LookAtNothing{}).any();
            if constexpr (!std::is_same_v<Look, LookAtNothing>) follow(loop->body, before, happens, look);
        }
        const bool leaves =
            std::holds_alternative<ir::Break>(stmt.node) || std::holds_alternative<ir::Continue>(stmt.node);
        left = left || (leaves && before);
        if (ir::is_terminator(stmt)) return {false, left};
    }
    return {before, left};
}

}  // namespace chainio::passes
