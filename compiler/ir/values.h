// What is known about register values at one point of a program: value numbers and proven ranges. validate() proves
// every access with it, and the check-elimination pass removes exactly those checks that it can prove, so the two
// cannot disagree.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::ir {

// The value of root plus displacement, modulo 2^64. Root 0 is the number zero: a constant is {0, constant}.
struct Value {
    std::uint32_t root = 0;
    std::uint64_t disp = 0;
    bool operator==(const Value&) const = default;
    bool is_const() const { return root == 0; }
};

// Follows a walk over a program in order. Branches are entered with mark() and left with rollback(); value numbers
// never change their meaning, so a proven range stays true where its check dominates.
class Values {
  public:
    explicit Values(std::uint32_t reg_count);

    bool defined(Reg r) const { return regs_[r].defined; }
    Value value(const Operand& op) const { return op.is_imm ? Value{0, op.value} : regs_[op.value].value; }
    void define(Reg r, Value v);
    void define_fresh(Reg r) { define(r, Value{next_root_++, 0}); }
    void undefine(Reg r);
    // Applies the statement's effect on the registers that it writes itself: copies and constant additions are
    // followed.
    void execute(const Stmt&);
    // Learns from a CheckRange that has passed.
    void learn(const CheckRange&);
    // Whether [offset, offset + length) is known to be inside the space.
    bool in_range(Space, const Operand& offset, const Operand& length) const;

    struct Mark {
        std::size_t regs, facts;
    };
    Mark mark() const { return {reg_trail_.size(), fact_trail_.size()}; }
    struct Change {
        Reg reg;
        bool defined;
        Value value;
    };
    // The final state of each register that changed since the mark, in no particular order.
    std::vector<Change> changes_since(Mark) const;
    void rollback(Mark);
    // After an If: a register keeps its value when both sides agree, gets a fresh one when they differ, and is
    // undefined when one side left it so.
    void merge(const std::vector<Change>& yes, const std::vector<Change>& no);
    void apply(const std::vector<Change>&);

  private:
    struct Slot {
        Value value;
        bool defined = false;
    };
    struct Fact {  // [disp, disp + length) is in range; with length_root != 0 the length is the value {length_root,
                   // length}
        std::uint64_t disp, length;
        std::uint32_t length_root;
    };
    void set(Reg r, Slot slot);
    static std::uint64_t key(Space space, std::uint32_t root) {
        return (std::uint64_t{root} << 8) | static_cast<std::uint8_t>(space);
    }

    std::vector<Slot> regs_;
    std::vector<std::pair<Reg, Slot>> reg_trail_;
    std::unordered_map<std::uint64_t, std::vector<Fact>> facts_;
    std::vector<std::uint64_t> fact_trail_;
    static constexpr std::uint32_t kBlockLength = 1;  // the root of io.block_length
    std::uint32_t next_root_ = 2;
};

// Every register that the body and the bodies inside it write.
void collect_defs(const Body&, std::vector<Reg>& out);

}  // namespace chainio::ir
