// The C of handlers, for native code: a program that stops is a function that goes on at a label.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/backends/backends.h"
#include "compiler/backends/emit_function.h"
#include "compiler/backends/templates.h"
#include "compiler/ir/handler_run.h"
#include "compiler/ir/visit.h"

namespace chainio::backends {
namespace {

bool stops(const ir::Body& body) {
    return std::ranges::any_of(body, [](const ir::Stmt& stmt) {
        if (std::holds_alternative<ir::CallChain>(stmt.node) || std::holds_alternative<ir::Reply>(stmt.node))
            return true;
        bool nested = false;
        ir::for_each_body(stmt, [&](const ir::Body& inner) { nested = nested || stops(inner); });
        return nested;
    });
}

// A piece is what lies between two stops, and begins or ends a loop that has stops. A register that is mentioned in one
// piece only is written there before it is read, in each round anew, as no value of an earlier round may be read that
// was not there before the loop: it is a local of the C function. Any other has a slot.
class HandlerPlacer {
  public:
    explicit HandlerPlacer(const ir::Program& program) : piece_of_(program.reg_count) {
        out_.regs.resize(program.reg_count);
        out_.function_of.resize(program.reg_count);
        for (std::uint32_t r = 0; r < program.reg_count; r++) out_.regs[r].slot = r;
        walk(program.body);
    }
    Placement result() { return std::move(out_); }

  private:
    void touch(ir::Reg r) {
        std::uint32_t& known = piece_of_[r];
        if (known != 0 && known != piece_) out_.regs[r].is_slot = true;
        known = piece_;
    }
    // What the runtime reads or writes.
    void share(const ir::Stmt& stmt) {
        ir::for_each_use(stmt, [&](const ir::Operand& op) {
            if (!op.is_imm) out_.regs[op.value].is_slot = true;
        });
        ir::for_each_def(stmt, [&](ir::Reg r) { out_.regs[r].is_slot = true; });
    }
    void walk(const ir::Body& body) {
        for (const ir::Stmt& stmt : body) {
            ir::for_each_use(stmt, [&](const ir::Operand& op) {
                if (!op.is_imm) touch(static_cast<ir::Reg>(op.value));
            });
            ir::for_each_def(stmt, [&](ir::Reg r) { touch(r); });
            const auto* loop = std::get_if<ir::Loop>(&stmt.node);
            const bool halting = loop != nullptr && stops(loop->body);
            const bool stop =
                std::holds_alternative<ir::CallChain>(stmt.node) || std::holds_alternative<ir::Reply>(stmt.node);
            if (halting) out_.halting.insert(loop);
            if (halting || stop) {
                share(stmt);
                piece_++;
            }
            ir::for_each_body(stmt, [&](const ir::Body& nested) { walk(nested); });
            if (halting) piece_++;
        }
    }

    Placement out_;
    std::vector<std::uint32_t> piece_of_;  // 0: not mentioned yet
    std::uint32_t piece_ = 1;
};

}  // namespace

Placement place_handler(const ir::Program& program) { return HandlerPlacer(program).result(); }

std::string emit_handlers(const ir::Artifact& artifact, std::string_view head) {
    Helpers helpers;
    std::string programs;
    const auto& all = artifact.module.programs;
    for (std::uint32_t i = 0; i < all.size(); i++) {
        if (all[i].kind != ir::ProgramKind::handler) continue;
        const Placement placement = place_handler(all[i]);
        programs += FunctionEmitter(artifact, i, placement, helpers).native_handler();
    }
    if (programs.empty()) return {};
    std::string text(head);
    text += fmt::format("#define CIO_RESULTS {}\n", ir::results_of(artifact.module));
    text += template_text("chainio_native_handler.h");
    return text + helpers.text() + programs;
}

}  // namespace chainio::backends
