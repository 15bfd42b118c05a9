// The pipeline over the IR, in order.
#include "compiler/passes/check_elim.h"
#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/fold.h"
#include "compiler/passes/lower.h"
#include "compiler/passes/renumber.h"

namespace chainio::passes {

void run_passes(ir::Module& module, const std::function<void()>& after) {
    using Pass = void (*)(const ir::Module&, ir::Program&);
    static constexpr Pass pipeline[] = {
        fold,              // constants and copies
        eliminate_common,  // the same value once
        fold,              // the copies that left
        eliminate_checks,  // what cannot fail
        eliminate_dead,    // what nothing reads
        renumber,          // few registers, fewer variables
    };
    for (ir::Program& program : module.programs) {
        for (Pass pass : pipeline) {
            pass(module, program);
            if (after) after();
        }
    }
}

}  // namespace chainio::passes
