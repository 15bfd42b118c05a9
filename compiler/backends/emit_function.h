// The C text of one program: its own function and one for each loop body. A service's handler is one function: its
// registers lie in its connection, so that it can go on behind the call of a chain (bpf-templates/chainio_handler.h).
#pragma once
#include <string>

#include "compiler/backends/helpers.h"
#include "compiler/backends/placement.h"
#include "compiler/ir/artifact.h"

namespace chainio::backends {

class FunctionEmitter {
  public:
    FunctionEmitter(const ir::Artifact& artifact, std::uint32_t number, const Placement& placement, Helpers& helpers)
        : artifact_(artifact), number_(number), placement_(placement), helpers_(helpers) {}
    std::string program();
    // `calls` are those of all handlers (ir::kernel_calls()).
    std::string handler(const std::vector<const ir::CallChain*>& calls);
    // A handler as native code, placed by place_handler() (bpf-templates/chainio_native_handler.h).
    std::string native_handler();

  private:
    struct Scope {  // what a Break or Continue means
        std::uint32_t function = 0;
        bool inline_loop = false;
    };
    void body(const ir::Body&, Scope, std::string& out);
    void line(const ir::Line&, std::string& out);
    std::string locals(std::uint32_t function) const;
    std::string loop_function(const ir::Loop&, std::uint32_t function);

    std::string reg(ir::Reg) const;
    std::string set(ir::Reg r, std::string_view value) const;
    std::string operand(const ir::Operand&) const;
    std::string at(ir::Space, const ir::Operand&) const;
    std::string size_of(ir::Space) const;
    std::string check_max(const ir::Slice&, std::uint32_t max) const;
    std::string check_result(const ir::Slice&) const;
    std::string halt();
    static std::string check(std::string_view condition, std::uint32_t outcome);

    std::string argument(const ir::Param&, const ir::CallChain&, std::size_t& scalars, std::size_t& bytes);
    std::string reply_part(const ir::ReplyPart&);

    std::string binary(const ir::Binary&) const;
    std::string unary(const ir::Unary&) const;
    std::string load(const ir::Load&) const;

    // One overload a statement: its C text.
    std::string stmt(const ir::Move&, Scope);
    std::string stmt(const ir::Unary&, Scope);
    std::string stmt(const ir::Binary&, Scope);
    std::string stmt(const ir::Select&, Scope);
    std::string stmt(const ir::GetInput&, Scope);
    std::string stmt(const ir::GetArg&, Scope);
    std::string stmt(const ir::Load&, Scope);
    std::string stmt(const ir::StoreState&, Scope);
    std::string stmt(const ir::Check&, Scope);
    std::string stmt(const ir::CheckRange&, Scope);
    std::string stmt(const ir::Varint&, Scope);
    std::string stmt(const ir::IntOfBytes&, Scope);
    std::string stmt(const ir::Compare&, Scope);
    std::string stmt(const ir::Hash&, Scope);
    std::string stmt(const ir::FindByte&, Scope);
    std::string stmt(const ir::ParseDecimal&, Scope);
    std::string stmt(const ir::CopyToState&, Scope);
    std::string stmt(const ir::EmitInt&, Scope);
    std::string stmt(const ir::EmitBytes&, Scope);
    std::string stmt(const ir::Next&, Scope);
    std::string stmt(const ir::Return&, Scope);
    std::string stmt(const ir::Fail&, Scope);
    std::string stmt(const ir::End&, Scope);
    std::string stmt(const ir::Prefetch&, Scope);
    std::string stmt(const ir::CallChain&, Scope);
    std::string stmt(const ir::Reply&, Scope);
    std::string stmt(const ir::Skip&, Scope);
    std::string stmt(const ir::If&, Scope);
    std::string stmt(const ir::Loop&, Scope);
    std::string stmt(const ir::Break&, Scope);
    std::string stmt(const ir::Continue&, Scope);

    const ir::Artifact& artifact_;
    std::uint32_t number_;
    const Placement& placement_;
    Helpers& helpers_;
    const std::vector<const ir::CallChain*>* calls_ = nullptr;  // of a handler
    std::string functions_;                                     // the loop bodies, innermost first
    ir::Line last_line_;
    std::uint32_t halts_ = 0;
};

}  // namespace chainio::backends
