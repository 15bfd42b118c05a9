#include "compiler/passes/cse.h"

#include <map>

#include "compiler/passes/rewriter.h"

namespace chainio::passes {
namespace {

using ir::Operand;
using ir::Reg;

class Common : public Rewriter {
  public:
    explicit Common(ir::Program& program) : Rewriter(program) {}

  private:
    using Key = std::vector<std::uint64_t>;
    static constexpr std::size_t kLikelyKey = 8;  // words; most keys need no more
    struct Known {
        Reg first, second;
    };

    Verdict visit(ir::Stmt& stmt) override {
        if (stores(stmt)) state_version_ = ++versions_;
        if (std::holds_alternative<ir::Loop>(stmt.node)) {
            // What a loop stores, its next round may load.
            bool stores_inside = false;
            ir::for_each_body(stmt, [&](const ir::Body& body) { stores_inside = stores_inside || any_store(body); });
            if (stores_inside) state_version_ = ++versions_;
        }
        Key key;
        key.reserve(kLikelyKey);
        if (!describe(stmt, key)) return Verdict::keep;
        std::vector<Reg> defs;
        ir::for_each_def(stmt, [&](Reg r) { defs.push_back(r); });
        for (Reg r : defs)
            if (!written_once(r)) return Verdict::keep;
        auto [at, inserted] = known_.try_emplace(key, Known{defs[0], defs.back()});
        if (inserted) {
            trail_.push_back(at);
            return Verdict::keep;
        }
        if (defs.size() == 2) return replace_varint(stmt, at->second);
        stmt.node = ir::Move{defs[0], Operand::reg(at->second.first)};
        return Verdict::keep;
    }

    // Two results become two copies; the statement itself becomes the second, the first is applied here.
    Verdict replace_varint(ir::Stmt& stmt, Known known) {
        auto varint = std::get<ir::Varint>(stmt.node);
        ir::Body copies;
        copies.push_back({stmt.line, ir::Move{varint.value, Operand::reg(known.first)}});
        copies.push_back({stmt.line, ir::Move{varint.length, Operand::reg(known.second)}});
        stmt.node = ir::If{Operand::imm(1), std::move(copies), {}};
        taken_ = true;
        return Verdict::replace_by_branch;
    }

    void enter(const ir::Stmt&, int) override { scopes_.push_back({trail_.size(), state_version_}); }
    // Versions only grow: whatever a branch or a round stored, what follows loads anew.
    void leave(const ir::Stmt&, int) override {
        Scope scope = scopes_.back();
        scopes_.pop_back();
        while (trail_.size() > scope.trail) {
            known_.erase(trail_.back());
            trail_.pop_back();
        }
        if (state_version_ != scope.version) state_version_ = ++versions_;
    }

    static bool stores(const ir::Stmt& stmt) {
        return std::holds_alternative<ir::StoreState>(stmt.node) || std::holds_alternative<ir::CopyToState>(stmt.node);
    }
    static bool any_store(const ir::Body& body) {
        for (const ir::Stmt& stmt : body) {
            bool found = stores(stmt);
            ir::for_each_body(stmt, [&](const ir::Body& nested) { found = found || any_store(nested); });
            if (found) return true;
        }
        return false;
    }

    void add(Key& key, const Operand& op) const {
        ir::Value v = values_.value(op);
        key.push_back(v.root);
        key.push_back(v.disp);
    }
    bool add_space(Key& key, ir::Space space) const {
        key.push_back(static_cast<std::uint64_t>(space));
        if (space == ir::Space::state) key.push_back(state_version_);
        return space != ir::Space::result;
    }
    bool add(Key& key, const ir::Slice& s) const {
        add(key, s.offset);
        add(key, s.length);
        return add_space(key, s.space);
    }

    // A key that is equal for equal results; false when the statement is no such computation.
    bool describe(const ir::Stmt& stmt, Key& key) const {
        key.push_back(stmt.node.index());
        return std::visit(ir::Overloaded{
                              [](const auto&) { return false; },
                              [&](const ir::Unary& n) {
                                  key.push_back(static_cast<std::uint64_t>(n.op));
                                  add(key, n.a);
                                  return true;
                              },
                              [&](const ir::Binary& n) {
                                  key.push_back(static_cast<std::uint64_t>(n.op));
                                  add(key, n.a);
                                  add(key, n.b);
                                  return true;
                              },
                              [&](const ir::Select& n) {
                                  add(key, n.cond);
                                  add(key, n.a);
                                  add(key, n.b);
                                  return true;
                              },
                              [&](const ir::GetInput& n) {
                                  key.push_back(static_cast<std::uint64_t>(n.input));
                                  return n.input != ir::Input::out_length;
                              },
                              [&](const ir::GetArg& n) {
                                  key.push_back(n.index);
                                  return true;
                              },
                              [&](const ir::Load& n) {
                                  add(key, n.offset);
                                  key.push_back(n.width * 4u + (n.big_endian ? 2u : 0u) + (n.is_signed ? 1u : 0u));
                                  return add_space(key, n.space);
                              },
                              [&](const ir::Varint& n) {
                                  key.push_back(static_cast<std::uint64_t>(n.kind));
                                  add(key, n.offset);
                                  add(key, n.limit);
                                  return add_space(key, n.space);
                              },
                              [&](const ir::Compare& n) {
                                  key.push_back(n.max);
                                  return add(key, n.a) && add(key, n.b);
                              },
                              [&](const ir::Hash& n) {
                                  key.push_back(static_cast<std::uint64_t>(n.algo));
                                  key.push_back(n.max);
                                  add(key, n.seed);
                                  return add(key, n.bytes);
                              },
                              [&](const ir::FindByte& n) {
                                  add(key, n.byte);
                                  key.push_back(n.max);
                                  return add(key, n.bytes);
                              },
                              [&](const ir::IntOfBytes& n) {
                                  key.push_back((n.big_endian ? 2u : 0u) + (n.is_signed ? 1u : 0u));
                                  return add(key, n.bytes);
                              },
                              [&](const ir::ParseDecimal& n) { return add(key, n.bytes); },
                          },
                          stmt.node);
    }

    std::map<Key, Known> known_;
    std::vector<std::map<Key, Known>::iterator> trail_;
    struct Scope {
        std::size_t trail;
        std::uint64_t version;
    };
    std::vector<Scope> scopes_;
    std::uint64_t state_version_ = 0, versions_ = 0;
};

}  // namespace

void eliminate_common(const ir::Module&, ir::Program& program) { Common(program).run(); }

}  // namespace chainio::passes
