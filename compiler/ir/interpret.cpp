#include "compiler/ir/interpret.h"

#include "compiler/ir/interpret_ops.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

// One run. With `traced` false nothing is counted.
template <bool traced>
class Run : Operations {
  public:
    Run(const Artifact& artifact, cio_io& io, const std::uint8_t* block, Trace* trace)
        : Operations(artifact, io, block, storage_), trace_(trace) {}

    void program(const Program& program) {
        if (io_.block_length > CIO_MAX_BLOCK) {
            fail(CIO_MALFORMED);
            return;
        }
        if (program.kind == ProgramKind::handler) {
            fail(CIO_UNSUPPORTED);
            return;
        }
        body(program.body);
        if constexpr (traced) trace_->out_of_range = trace_->out_of_range || escaped_;
    }

  private:
    After body(const Body& statements) {
        for (const Stmt& stmt : statements) {
            if constexpr (traced) trace_->statements++;
            After flow = std::visit([this](const auto& n) { return this->exec(n); }, stmt.node);
            if constexpr (traced) {
                const bool failed = flow == After::stop && io_.outcome != CIO_OK;
                if (failed && trace_->failed == nullptr) trace_->failed = &stmt;  // the innermost comes first
            }
            if (flow != After::on) return flow;
        }
        return After::on;
    }

    using Operations::exec;
    After exec(const CallChain&) { return fail(CIO_UNSUPPORTED); }
    After exec(const Reply&) { return fail(CIO_UNSUPPORTED); }
    After exec(const Skip&) { return fail(CIO_UNSUPPORTED); }
    After exec(const If& n) { return body(get(n.cond) != 0 ? n.yes : n.no); }
    After exec(const Loop& n) {
        std::uint64_t count = get(n.count);
        if (count > n.max) return fail(n.outcome);
        for (std::uint64_t i = 0; i < count; i++) {
            regs_[n.counter] = i;
            After flow = body(n.body);
            if (flow == After::stop) return flow;
            if (flow == After::break_) break;
        }
        return After::on;
    }

    Trace* trace_;
    std::uint64_t storage_[kMaxRegs];  // left as it is: every register is written before it is read
};

}  // namespace

void interpret(const Artifact& artifact, std::uint32_t program, cio_io& io, const std::uint8_t* block) {
    Run<false>(artifact, io, block, nullptr).program(artifact.module.programs[program]);
}

void interpret(const Artifact& artifact, std::uint32_t program, cio_io& io, const std::uint8_t* block, Trace& trace) {
    Run<true>(artifact, io, block, &trace).program(artifact.module.programs[program]);
}

}  // namespace chainio::ir
