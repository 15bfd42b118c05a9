#include "compiler/passes/dce.h"

#include "compiler/ir/visit.h"

namespace chainio::passes {
namespace {

class Dead {
  public:
    explicit Dead(ir::Program& program) : program_(program), reads_(program.reg_count, 0) {}

    void run() {
        count(program_.body);
        do {
            changed_ = false;
            sweep(program_.body);
        } while (changed_);
    }

  private:
    void count(const ir::Body& body) {
        for (const ir::Stmt& stmt : body) {
            adjust(stmt, 1);
            ir::for_each_body(stmt, [&](const ir::Body& nested) { count(nested); });
        }
    }
    // Of the statement itself.
    void adjust(const ir::Stmt& stmt, std::int64_t by) {
        ir::for_each_use(stmt, [&](const ir::Operand& op) {
            if (!op.is_imm) reads_[op.value] += by;
        });
    }
    void forget(const ir::Stmt& stmt) {
        adjust(stmt, -1);
        ir::for_each_body(stmt, [&](const ir::Body& nested) {
            for (const ir::Stmt& inner : nested) forget(inner);
        });
        changed_ = true;
    }

    static bool short_enough(const ir::Slice& s, std::uint64_t max) { return s.length.is_imm && s.length.value <= max; }

    // Whether the statement only writes its registers: no failure, no effect.
    static bool is_pure(const ir::Stmt& stmt) {
        return std::visit(
            ir::Overloaded{
                [](const auto&) { return false; },
                []<ir::AnyOf<ir::Move, ir::Unary, ir::Binary, ir::Select, ir::GetInput, ir::GetArg, ir::Load> N>(
                    const N&) { return true; },
                [](const ir::Compare& n) { return short_enough(n.a, n.max) && short_enough(n.b, n.max); },
                [](const ir::Hash& n) { return short_enough(n.bytes, n.max); },
                [](const ir::FindByte& n) { return short_enough(n.bytes, n.max); },
                [](const ir::IntOfBytes& n) { return short_enough(n.bytes, 8); },
            },
            stmt.node);
    }
    bool is_unread(const ir::Stmt& stmt) const {
        bool unread = true;
        ir::for_each_def(stmt, [&](ir::Reg r) { unread = unread && reads_[r] == 0; });
        return unread;
    }
    static bool is_empty(const ir::Stmt& stmt) {
        if (auto* branch = std::get_if<ir::If>(&stmt.node)) return branch->yes.empty() && branch->no.empty();
        auto* loop = std::get_if<ir::Loop>(&stmt.node);
        return loop != nullptr && loop->body.empty() && loop->count.is_imm && loop->count.value <= loop->max;
    }

    void sweep(ir::Body& body) {
        std::size_t first_kept = body.size();  // what stays gathers at the end
        for (std::size_t i = body.size(); i-- > 0;) {
            ir::for_each_body(body[i], [&](ir::Body& nested) { sweep(nested); });
            if (is_empty(body[i]) || (is_pure(body[i]) && is_unread(body[i]))) {
                forget(body[i]);
            } else if (--first_kept != i) {
                body[first_kept] = std::move(body[i]);
            }
        }
        body.erase(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(first_kept));
    }

    ir::Program& program_;
    std::vector<std::int64_t> reads_;
    bool changed_ = false;
};

}  // namespace

void eliminate_dead(const ir::Module&, ir::Program& program) { Dead(program).run(); }

}  // namespace chainio::passes
