#include "compiler/backends/placement.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/visit.h"

namespace chainio::backends {
namespace {

// The kernel allows eight frames: the program's entry, the program, two of helpers, and what is left for loops. A loop
// of many rounds takes two.
constexpr std::uint32_t kLoopFrames = 4;

struct BodyInfo {
    std::uint32_t parent = 0, depth = 0, function = 0;
};

struct RegInfo {
    std::uint32_t defs = 0, home = 0, function = 0;
    std::uint32_t first = 0, last = 0;  // places in the program's order: from the first mention to the last
    bool seen = false, crosses = false;
};

// Locals that live at once in the program's own function, and in a loop's: what clang spills of them has to fit, for
// all frames together, the 512 bytes of stack that BPF has. A slot in memory costs the same as a spill.
constexpr std::size_t kMostLiveInProgram = 8, kMostLiveInLoop = 4;

class Placer {
  public:
    explicit Placer(const ir::Program& program) : regs_(program.reg_count) {
        bodies_.push_back({});
        walk(program.body, 0, 0);
        limit_live();
    }

    Placement result() {
        Placement out;
        out.regs.resize(regs_.size());
        out.function_of.resize(regs_.size());
        out.functions = std::move(functions_);
        std::vector<std::uint32_t> next(bodies_.size());
        std::vector<std::vector<std::size_t>> homes(bodies_.size());
        for (std::size_t r = 0; r < regs_.size(); r++)
            if (regs_[r].defs > 1 || regs_[r].crosses) homes[regs_[r].home].push_back(r);
        // A body comes after its parent, so that the parent's slots are known; bodies side by side share theirs.
        for (std::size_t body = 0; body < bodies_.size(); body++) {
            next[body] = body == 0 ? 0 : next[bodies_[body].parent];
            for (std::size_t r : homes[body]) out.regs[r] = {true, next[body]++};
            out.slots = std::max(out.slots, next[body]);
        }
        for (std::size_t r = 0; r < regs_.size(); r++) out.function_of[r] = regs_[r].function;
        return out;
    }

  private:
    void touch(ir::Reg r, std::uint32_t body) {
        RegInfo& info = regs_[r];
        if (!info.seen) {
            info = {info.defs, body, bodies_[body].function, position_, position_, true, false};
            return;
        }
        info.last = position_;
        info.crosses |= bodies_[body].function != info.function;
        std::uint32_t other = body;
        while (info.home != other) {
            std::uint32_t& deeper = bodies_[info.home].depth >= bodies_[other].depth ? info.home : other;
            deeper = bodies_[deeper].parent;
        }
    }

    std::uint32_t add_body(std::uint32_t parent, std::uint32_t function) {
        bodies_.push_back({parent, bodies_[parent].depth + 1, function});
        return static_cast<std::uint32_t>(bodies_.size() - 1);
    }

    void walk(const ir::Body& body, std::uint32_t id, std::uint32_t frames) {
        for (const ir::Stmt& stmt : body) {
            position_++;
            ir::for_each_use(stmt, [&](const ir::Operand& op) {
                if (!op.is_imm) touch(static_cast<ir::Reg>(op.value), id);
            });
            if (auto* loop = std::get_if<ir::Loop>(&stmt.node)) {
                walk_loop(*loop, id, frames);
                continue;
            }
            ir::for_each_def(stmt, [&](ir::Reg r) {
                touch(r, id);
                regs_[r].defs++;
            });
            ir::for_each_body(
                stmt, [&](const ir::Body& nested) { walk(nested, add_body(id, bodies_[id].function), frames); });
        }
    }

    // The counter belongs to the body, which gets it as a parameter.
    void walk_loop(const ir::Loop& loop, std::uint32_t id, std::uint32_t frames) {
        std::uint32_t function = bodies_[id].function;
        std::uint32_t taken = loop.max > kLongLoop ? 2 : 1;
        if (frames + taken <= kLoopFrames) {
            functions_[&loop] = function = ++last_function_;
            frames += taken;
        }
        std::uint32_t inner = add_body(id, function);
        touch(loop.counter, inner);
        regs_[loop.counter].defs++;
        std::uint32_t start = position_;
        walk(loop.body, inner, frames);
        if (function != bodies_[id].function) return;
        // The rounds of an inlined loop need what was there before it until its end.
        for (RegInfo& info : regs_)
            if (info.seen && info.first < start && info.last >= start) info.last = position_;
    }

    // Of too many locals, those that live longest become slots.
    void limit_live() {
        std::vector<std::size_t> order;
        for (std::size_t r = 0; r < regs_.size(); r++)
            if (regs_[r].seen && regs_[r].defs == 1 && !regs_[r].crosses) order.push_back(r);
        std::ranges::sort(order, {}, [&](std::size_t r) { return std::pair(regs_[r].first, r); });
        std::map<std::uint32_t, std::vector<std::size_t>> live;  // by function
        for (std::size_t r : order) {
            std::vector<std::size_t>& here = live[regs_[r].function];
            std::erase_if(here, [&](std::size_t other) { return regs_[other].last <= regs_[r].first; });
            here.push_back(r);
            if (here.size() <= (regs_[r].function == 0 ? kMostLiveInProgram : kMostLiveInLoop)) continue;
            auto longest = std::ranges::max_element(here, {}, [&](std::size_t other) { return regs_[other].last; });
            regs_[*longest].crosses = true;
            here.erase(longest);
        }
    }

    std::vector<RegInfo> regs_;
    std::vector<BodyInfo> bodies_;
    std::map<const ir::Loop*, std::uint32_t> functions_;
    std::uint32_t last_function_ = 0, position_ = 0;
};

}  // namespace

Placement place(const ir::Program& program) { return Placer(program).result(); }

}  // namespace chainio::backends
