#include "compiler/passes/renumber.h"

#include <algorithm>
#include <limits>

#include "compiler/ir/visit.h"

namespace chainio::passes {
namespace {

// The span of statement positions in which a variable may be alive. A variable that is touched inside a loop and was
// written before it lives through the whole loop.
struct Life {
    std::uint32_t first = std::numeric_limits<std::uint32_t>::max(), last = 0;
    std::uint32_t writes = 0;
};

class Lives {
  public:
    explicit Lives(std::uint32_t registers) : lives(registers) {}
    std::vector<Life> lives;

    void walk(const ir::Body& body) {
        for (const ir::Stmt& stmt : body) {
            std::uint32_t at = position_++;
            ir::for_each_use(stmt, [&](const ir::Operand& op) {
                if (!op.is_imm) touch(static_cast<ir::Reg>(op.value), at);
            });
            ir::for_each_def(stmt, [&](ir::Reg r) {
                touch(r, at);
                lives[r].writes++;
            });
            ir::for_each_body(stmt, [&](const ir::Body& nested) { walk(nested); });
            if (std::holds_alternative<ir::Loop>(stmt.node)) {
                for (Life& life : lives)
                    if (life.first < at && life.last >= at) life.last = std::max(life.last, position_);
            }
        }
    }

  private:
    void touch(ir::Reg r, std::uint32_t at) {
        lives[r].first = std::min(lives[r].first, at);
        lives[r].last = std::max(lives[r].last, at);
    }
    std::uint32_t position_ = 0;
};

class Renumber {
  public:
    explicit Renumber(ir::Program& program)
        : program_(program), lives_(program.reg_count), number_(program.reg_count, kNone) {}

    void run() {
        lives_.walk(program_.body);
        share_variables();
        rewrite(program_.body);
        program_.reg_count = static_cast<std::uint16_t>(names_.size());
        program_.reg_names = std::move(names_);
    }

  private:
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

    void share_variables() {
        std::vector<ir::Reg> variables;
        for (std::uint32_t r = 0; r < lives_.lives.size(); r++)
            if (lives_.lives[r].writes > 1) variables.push_back(static_cast<ir::Reg>(r));
        std::ranges::sort(variables, [&](ir::Reg a, ir::Reg b) {
            return std::pair(lives_.lives[a].first, a) < std::pair(lives_.lives[b].first, b);
        });
        std::vector<std::uint32_t> free_from;  // of each shared number: where its last owner's life has ended
        for (ir::Reg r : variables) {
            const Life& life = lives_.lives[r];
            auto slot = std::ranges::find_if(free_from, [&](std::uint32_t end) { return end < life.first; });
            if (slot == free_from.end()) {
                slot = free_from.insert(free_from.end(), 0);
                names_.emplace_back("v");
            }
            *slot = life.last;
            number_[r] = static_cast<std::uint32_t>(slot - free_from.begin());
        }
    }

    ir::Reg number(ir::Reg r) {
        if (number_[r] == kNone) {
            number_[r] = static_cast<std::uint32_t>(names_.size());
            names_.push_back(r < program_.reg_names.size() ? program_.reg_names[r] : std::string());
        }
        return static_cast<ir::Reg>(number_[r]);
    }

    void rewrite(ir::Body& body) {
        for (ir::Stmt& stmt : body) {
            ir::for_each_use(stmt, [&](ir::Operand& op) {
                if (!op.is_imm) op.value = number(static_cast<ir::Reg>(op.value));
            });
            ir::for_each_def(stmt, [&](ir::Reg& r) { r = number(r); });
            ir::for_each_body(stmt, [&](ir::Body& nested) { rewrite(nested); });
        }
    }

    ir::Program& program_;
    Lives lives_;
    std::vector<std::uint32_t> number_;
    std::vector<std::string> names_;
};

}  // namespace

void renumber(const ir::Module&, ir::Program& program) { Renumber(program).run(); }

}  // namespace chainio::passes
