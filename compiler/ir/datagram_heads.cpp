#include "compiler/ir/datagram_heads.h"

#include <algorithm>
#include <vector>

#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

class Differing {
  public:
    explicit Differing(const Program& program) : differs_(program.reg_count) {}

    // False: what the statement does may differ from datagram to datagram by more than values of registers.
    bool passes(const Stmt& stmt) {
        if (const auto* reply = std::get_if<Reply>(&stmt.node))
            return std::ranges::all_of(reply->parts, [this](const ReplyPart& part) { return is_same_length(part); });
        const bool is_number = is_of_datagram(stmt);
        bool uses = false;
        for_each_use(stmt, [&](const Operand& operand) { uses = uses || differs(operand); });
        if ((uses || is_number) && !only_computes(stmt)) return false;
        if (uses || is_number) for_each_def(stmt, [&](Reg reg) { differs_[reg] = true; });
        bool nests = false;
        for_each_body(stmt, [&](const Body&) { nests = true; });
        return !nests;
    }

  private:
    static bool is_of_datagram(const Stmt& stmt) {
        const auto* input = std::get_if<GetInput>(&stmt.node);
        return input != nullptr && (input->input == Input::block_offset || input->input == Input::block_tag);
    }
    static bool only_computes(const Stmt& stmt) {
        return std::holds_alternative<Move>(stmt.node) || std::holds_alternative<Unary>(stmt.node) ||
               std::holds_alternative<Binary>(stmt.node) || std::holds_alternative<Select>(stmt.node) ||
               std::holds_alternative<GetInput>(stmt.node);
    }
    bool differs(const Operand& operand) const { return !operand.is_imm && differs_[operand.value]; }
    bool is_same_length(const ReplyPart& part) const {
        if (part.format == Format::bytes) return !differs(part.bytes.offset) && !differs(part.bytes.length);
        return !differs(part.value) || (part.format != Format::dec && part.format != Format::hex);
    }

    std::vector<bool> differs_;  // by register: its value
};

}  // namespace

bool heads_are_alike(const Program& on_datagram) {
    Differing differing(on_datagram);
    return std::ranges::all_of(on_datagram.body, [&](const Stmt& stmt) { return differing.passes(stmt); });
}

}  // namespace chainio::ir
