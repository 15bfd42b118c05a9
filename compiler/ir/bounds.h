// What is known of a register's value from the operations that made it: how large it can be. The lowering asks for it
// to bound the length of a slice, and with it what a comparison, a copy or a hash may cost.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/ir.h"

namespace chainio::ir {

class RegisterBounds {
  public:
    static constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

    std::uint64_t most(Operand o) const {
        return o.is_imm ? o.value : o.value < known_.size() ? known_[o.value].most : kAny;
    }
    // The same for a value that a check has shown to be below 2^32: a difference that wrapped is at least 2^63, unless
    // more than that was taken away, as of a negative number that was made unsigned.
    std::uint64_t most_when_small(Operand o) const {
        constexpr std::uint64_t kWraps = std::uint64_t{1} << 63;
        const Known* known = find(o);
        if (known == nullptr || known->op != BinOp::sub || most(known->b) > kWraps) return most(o);
        return std::min(known->most, most(known->a));
    }
    // x where `o` is low + x.
    std::optional<Operand> added_to(Operand low, Operand o) const {
        const Known* known = find(o);
        if (known == nullptr || known->op != BinOp::add) return std::nullopt;
        if (known->a == low) return known->b;
        if (known->b == low) return known->a;
        return std::nullopt;
    }

    void input(Reg r, Input which) {
        Known& known = at(r);
        known.source = 1 + static_cast<std::uint32_t>(which);
        if (which == Input::block_length) known.most = CIO_MAX_BLOCK;
    }
    void arg(Reg r, std::uint16_t index) { at(r).source = 0x10000u + index; }
    void load(Reg r, std::uint8_t width, bool is_signed) {
        if (width < 8 && !is_signed) at(r).most = (std::uint64_t{1} << (8 * width)) - 1;
    }
    void binary(Reg r, BinOp op, Operand a, Operand b) {
        const std::uint64_t bound = bound_of(op, a, b);
        Known& known = at(r);
        known.op = op;
        known.a = a;
        known.b = b;
        known.most = bound;
    }
    void select(Reg r, Operand cond, Operand a, Operand b) {
        std::uint64_t bound = std::max(most(a), most(b));
        const Known* test = find(cond);
        const bool less = test != nullptr && (test->op == BinOp::ult || test->op == BinOp::ule);
        if (less && same(test->a, a) && same(test->b, b)) bound = std::min(most(a), most(b));
        at(r).most = bound;
    }

  private:
    struct Known {
        std::uint64_t most = kAny;
        std::uint32_t source = 0;  // registers of the same source hold the same value
        std::optional<BinOp> op;
        Operand a, b;
    };
    const Known* find(Operand o) const { return o.is_imm || o.value >= known_.size() ? nullptr : &known_[o.value]; }
    Known& at(Reg r) {
        if (known_.size() <= r) known_.resize(std::size_t{r} + 1);
        return known_[r];
    }
    bool same(Operand x, Operand y) const {
        if (x == y) return true;
        const Known *a = find(x), *b = find(y);
        return a != nullptr && b != nullptr && a->source != 0 && a->source == b->source;
    }
    std::uint64_t bound_of(BinOp op, Operand a, Operand b) const {
        const std::uint64_t x = most(a), y = most(b);
        switch (op) {
            case BinOp::umin:
            case BinOp::bit_and: return std::min(x, y);
            case BinOp::umax: return std::max(x, y);
            case BinOp::add: return x > kAny - y ? kAny : x + y;
            case BinOp::mul: return y != 0 && x > kAny / y ? kAny : x * y;
            case BinOp::udiv: return b.is_imm && b.value != 0 ? x / b.value : x;
            case BinOp::umod: return y == 0 ? x : std::min(x, y - 1);
            case BinOp::lshr: return b.is_imm ? x >> (b.value & 63) : x;
            case BinOp::eq:
            case BinOp::ne:
            case BinOp::ult:
            case BinOp::ule:
            case BinOp::slt:
            case BinOp::sle: return 1;
            default: return kAny;
        }
    }

    std::vector<Known> known_;
};

}  // namespace chainio::ir
