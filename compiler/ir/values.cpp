#include "compiler/ir/values.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/ir/visit.h"

namespace chainio::ir {

Values::Values(std::uint32_t reg_count) : regs_(reg_count) {
    facts_[key(Space::block, 0)].push_back(Fact{0, 0, kBlockLength});  // the whole block is inside the block
}

void Values::set(Reg r, Slot slot) {
    reg_trail_.emplace_back(r, regs_[r]);
    regs_[r] = slot;
}

void Values::define(Reg r, Value v) { set(r, Slot{v, true}); }

void Values::undefine(Reg r) { set(r, Slot{}); }

void Values::execute(const Stmt& stmt) {
    if (auto* move = std::get_if<Move>(&stmt.node)) {
        define(move->dst, value(move->src));
        return;
    }
    if (auto* input = std::get_if<GetInput>(&stmt.node); input != nullptr && input->input == Input::block_length)
        return define(input->dst, Value{kBlockLength, 0});
    if (auto* binary = std::get_if<Binary>(&stmt.node)) {
        Value a = value(binary->a), b = value(binary->b);
        if (binary->op == BinOp::add && b.is_const()) return define(binary->dst, Value{a.root, a.disp + b.disp});
        if (binary->op == BinOp::add && a.is_const()) return define(binary->dst, Value{b.root, a.disp + b.disp});
        if (binary->op == BinOp::sub && b.is_const()) return define(binary->dst, Value{a.root, a.disp - b.disp});
    }
    for_each_def(stmt, [&](Reg r) { define_fresh(r); });
}

void Values::learn(const CheckRange& check) {
    Value offset = value(check.offset), length = value(check.length);
    std::uint64_t k = key(check.space, offset.root);
    facts_[k].push_back(Fact{offset.disp, length.disp, length.root});
    fact_trail_.push_back(k);
}

bool Values::in_range(Space space, const Operand& offset_op, const Operand& length_op) const {
    Value offset = value(offset_op), length = value(length_op);
    auto found = facts_.find(key(space, offset.root));
    if (found == facts_.end()) return false;
    return std::ranges::any_of(found->second, [&](const Fact& fact) {
        if (fact.length_root != 0 || !length.is_const())
            return fact.disp == offset.disp && fact.length_root == length.root && fact.length == length.disp;
        std::uint64_t skip = offset.disp - fact.disp;
        return skip <= fact.length && length.disp <= fact.length - skip;
    });
}

std::vector<Values::Change> Values::changes_since(Mark mark) const {
    std::vector<Change> changes;
    std::unordered_set<Reg> seen;
    for (std::size_t i = mark.regs; i < reg_trail_.size(); i++) {
        Reg r = reg_trail_[i].first;
        if (seen.insert(r).second) changes.push_back({r, regs_[r].defined, regs_[r].value});
    }
    return changes;
}

void Values::rollback(Mark mark) {
    while (reg_trail_.size() > mark.regs) {
        regs_[reg_trail_.back().first] = reg_trail_.back().second;
        reg_trail_.pop_back();
    }
    while (fact_trail_.size() > mark.facts) {
        facts_[fact_trail_.back()].pop_back();
        fact_trail_.pop_back();
    }
}

void Values::apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) set(change.reg, Slot{change.value, change.defined});
}

void Values::merge(const std::vector<Change>& yes, const std::vector<Change>& no) {
    std::unordered_map<Reg, std::pair<Slot, Slot>> sides;
    for (const Change& c : yes) sides[c.reg] = {Slot{c.value, c.defined}, regs_[c.reg]};
    for (const Change& c : no) {
        auto [at, inserted] = sides.try_emplace(c.reg, regs_[c.reg], Slot{});
        at->second.second = Slot{c.value, c.defined};
    }
    for (const auto& [reg, pair] : sides) {
        const auto& [a, b] = pair;
        if (!a.defined || !b.defined) {
            undefine(reg);
        } else if (a.value == b.value) {
            define(reg, a.value);
        } else {
            define_fresh(reg);
        }
    }
}

void collect_defs(const Body& body, std::vector<Reg>& out) {
    for (const Stmt& stmt : body) {
        for_each_def(stmt, [&](Reg r) { out.push_back(r); });
        for_each_body(stmt, [&](const Body& nested) { collect_defs(nested, out); });
    }
}

bool branches_end_flow(const Stmt& stmt) {
    auto* branch = std::get_if<If>(&stmt.node);
    return branch != nullptr && ends_flow(branch->yes) && ends_flow(branch->no);
}

bool ends_flow(const Body& body) {
    return !body.empty() && (is_terminator(body.back()) || branches_end_flow(body.back()));
}

}  // namespace chainio::ir
