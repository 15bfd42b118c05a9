// Building programs statement by statement: the lowering and the tests use it. What is added after the end of the flow
// is dropped, so that a body never holds dead statements.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/bounds.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {

class Builder {
  public:
    Builder(std::string name, ProgramKind kind) {
        program_.name = std::move(name);
        program_.kind = kind;
    }

    Line line;  // given to the statements that are added from now on

    // Past kMostBuiltRegs every new register is the last one: such a program is only good for being refused by its
    // size.
    Reg new_reg(std::string name = {}) {
        if (program_.reg_count == kMostBuiltRegs) return kMostBuiltRegs - 1;
        program_.reg_names.push_back(std::move(name));
        return program_.reg_count++;
    }
    // Whether the program is such a one.
    bool full() const { return program_.reg_count == kMostBuiltRegs; }
    bool ended() const { return ended_; }
    const RegisterBounds& bounds() const { return bounds_; }

    template <class N>
    void add(N node) {
        if (ended_) return;
        body_.push_back(Stmt{line, std::move(node)});
        ended_ = is_terminator(body_.back());
    }

    Operand unary(UnOp op, Operand a) {
        return value([&](Reg r) { add(Unary{r, op, a}); });
    }
    Operand binary(BinOp op, Operand a, Operand b) {
        return value([&](Reg r) {
            bounds_.binary(r, op, a, b);
            add(Binary{r, op, a, b});
        });
    }
    Operand select(Operand cond, Operand a, Operand b) {
        return value([&](Reg r) {
            bounds_.select(r, cond, a, b);
            add(Select{r, cond, a, b});
        });
    }
    Operand input(Input which) {
        return value([&](Reg r) {
            bounds_.input(r, which);
            add(GetInput{r, which});
        });
    }
    Operand arg(std::uint16_t index) {
        return value([&](Reg r) {
            bounds_.arg(r, index);
            add(GetArg{r, index});
        });
    }
    // Without a check; check_range() comes first.
    Operand load(Space space, Operand offset, std::uint8_t width, bool big_endian = false, bool is_signed = false) {
        return value([&](Reg r) {
            bounds_.load(r, width, is_signed);
            add(Load{r, space, offset, width, big_endian, is_signed});
        });
    }
    void check(Operand cond, std::uint32_t outcome) { add(Check{cond, outcome}); }
    void check_range(Space space, Operand offset, Operand length, std::uint32_t outcome) {
        add(CheckRange{space, offset, length, outcome});
    }
    std::pair<Operand, Operand> varint(VarintKind kind, Space space, Operand offset, Operand limit,
                                       std::uint32_t outcome) {
        Reg v = new_reg(), n = new_reg();
        add(Varint{v, n, kind, space, offset, limit, outcome});
        return {Operand::reg(v), Operand::reg(n)};
    }
    Operand compare(Slice a, Slice b, std::uint32_t max) {
        return value([&](Reg r) { add(Compare{r, a, b, max}); });
    }
    Operand hash(HashAlgo algo, Slice bytes, Operand seed, std::uint32_t max) {
        return value([&](Reg r) { add(Hash{r, algo, bytes, seed, max}); });
    }
    Operand find_byte(Slice bytes, Operand byte, std::uint32_t max) {
        return value([&](Reg r) { add(FindByte{r, bytes, byte, max}); });
    }

    // A register that is written more than once.
    Reg variable(Operand initial, std::string name = {}) {
        Reg r = new_reg(std::move(name));
        add(Move{r, initial});
        return r;
    }
    void assign(Reg r, Operand v) { add(Move{r, v}); }

    void if_(Operand cond, const std::function<void()>& yes, const std::function<void()>& no = {}) {
        if (ended_) return;
        Line at = line;
        auto [yes_body, yes_ends] = nested(yes);
        auto [no_body, no_ends] = nested(no);
        line = at;
        add(If{cond, std::move(yes_body), std::move(no_body)});
        ended_ = yes_ends && no_ends;
    }
    void loop(Operand count, std::uint32_t max, std::uint32_t outcome, const std::function<void(Operand)>& inside) {
        if (ended_) return;
        Line at = line;
        Reg counter = new_reg();
        Body loop_body = nested([&] { inside(Operand::reg(counter)); }).first;
        line = at;
        add(Loop{counter, count, max, outcome, std::move(loop_body)});
    }

    // The statements that f adds, and whether they end the flow; splice() puts them where they are wanted.
    std::pair<Body, bool> capture(const std::function<void()>& f) { return nested(f); }
    void splice(Body statements) {
        for (Stmt& stmt : statements) {
            if (ended_) return;
            body_.push_back(std::move(stmt));
            ended_ = is_terminator(body_.back()) || branches_end_flow(body_.back());
        }
    }

    Program finish() {
        program_.body = std::move(body_);
        return std::move(program_);
    }

  private:
    template <class F>
    Operand value(F&& f) {
        Reg r = new_reg();
        f(r);
        return Operand::reg(r);
    }
    std::pair<Body, bool> nested(const std::function<void()>& f) {
        Body outer = std::exchange(body_, {});
        bool outer_ended = std::exchange(ended_, false);
        if (f) f();
        bool ends = std::exchange(ended_, outer_ended);
        return {std::exchange(body_, std::move(outer)), ends};
    }

    Program program_;
    RegisterBounds bounds_;  // of registers with one assignment, which these functions make
    Body body_;
    bool ended_ = false;
};

}  // namespace chainio::ir
