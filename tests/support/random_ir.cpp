#include "tests/support/random_ir.h"

#include <fmt/format.h>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/builder.h"

namespace chainio::tests {
namespace {

using namespace ir;

constexpr std::uint32_t kOutLimit = 512;
constexpr std::uint64_t kMaxRounds = 3000;  // of nested loops together

class ProgramMaker {
  public:
    ProgramMaker(Random& random, const Chain* chain, std::string name, ProgramKind kind, std::uint32_t size)
        : random_(random), chain_(chain), kind_(kind), builder_(std::move(name), kind), budget_(size) {}

    Program make() {
        for (int i = 0; i < 3; i++) {
            Reg r = builder_.variable(Operand::imm(random_.interesting()));
            variables_.push_back(r);
            known_.push_back(r);
        }
        statements(0);
        return builder_.finish();
    }

  private:
    Operand imm(std::uint64_t v) const { return Operand::imm(v); }
    Operand any() {
        if (known_.empty() || random_.one_in(4)) return imm(random_.interesting());
        // The latest values are the ones that lead on to something.
        std::size_t from = random_.one_in(2) ? known_.size() - std::min<std::size_t>(known_.size(), 4) : 0;
        return Operand::reg(known_[from + random_.below(known_.size() - from)]);
    }
    Operand small(std::uint64_t mask) {
        return random_.one_in(3) ? imm(random_.below(mask + 1))
                                 : keep(builder_.binary(BinOp::bit_and, any(), imm(mask)));
    }
    Operand keep(Operand op) {
        if (!op.is_imm) known_.push_back(static_cast<Reg>(op.value));
        return op;
    }
    Operand keep(Reg r) { return keep(Operand::reg(r)); }
    std::uint32_t outcome() {
        return random_.one_in(3) ? CIO_USER : static_cast<std::uint32_t>(1 + random_.below(CIO_UNSUPPORTED));
    }
    Space space() { return static_cast<Space>(random_.below(4)); }

    // Mostly inside of every space, so that programs get further than their first check.
    Operand offset() { return small(random_.one_in(40) ? 0xffff : 31); }

    // A slice that a check covers; `mask` bounds its length.
    Slice slice(std::uint64_t mask) {
        Slice s{space(), offset(), small(mask)};
        if (mask > 31 && !random_.one_in(20)) s.space = Space::block;
        if (random_.one_in(40)) s.length = any();
        builder_.check_range(s.space, s.offset, s.length, outcome());
        if (random_.one_in(4) && s.length.is_imm && s.length.value > 4) {
            s.offset = keep(builder_.binary(BinOp::add, s.offset, imm(2)));
            s.length.value -= 4;
        }
        return s;
    }
    std::uint32_t max_for(std::uint64_t mask) {
        return static_cast<std::uint32_t>(random_.one_in(30) ? mask / 2 : mask);
    }

    void statements(std::uint32_t depth) {
        std::size_t known = known_.size();
        for (std::uint64_t n = 1 + random_.below(depth == 0 ? budget_ : 6); n > 0 && budget_ > 0 && !builder_.ended();
             n--) {
            budget_--;
            builder_.line.line++;
            statement(depth);
        }
        if (depth > 0) known_.resize(known);
    }

    void statement(std::uint32_t depth) {
        switch (random_.below(24)) {
            case 0: return arithmetic();
            case 1: return arithmetic();
            case 2: keep(builder_.unary(static_cast<UnOp>(random_.below(12)), any())); return;
            case 3: keep(builder_.select(any(), any(), any())); return;
            case 4: return inputs();
            case 5: return load();
            case 6: return load();
            case 7: return store();
            case 8: return varint();
            case 9: return integer();
            case 10: return compare();
            case 11: return hash();
            case 12: return find();
            case 13: return copy();
            case 14: return emit();
            case 15: return assign();
            case 16: return next_or_prefetch();
            case 17: return next_or_prefetch();
            case 18: return check();
            case 19: return leave(depth);
            case 20:
            case 21: return branch(depth);
            default: return loop(depth);
        }
    }

    // By a copy, or by what computes the value.
    void assign() {
        const Reg variable = variables_[random_.below(variables_.size())];
        if (random_.one_in(2)) return builder_.assign(variable, any());
        builder_.add(Binary{variable, static_cast<BinOp>(random_.below(19)), any(), any()});
    }

    void arithmetic() { keep(builder_.binary(static_cast<BinOp>(random_.below(19)), any(), any())); }

    void inputs() {
        if (chain_ != nullptr && chain_->arg_slots > 0 && random_.one_in(2)) {
            keep(builder_.arg(static_cast<std::uint16_t>(random_.below(chain_->arg_slots))));
        } else {
            keep(builder_.input(static_cast<Input>(random_.below(4))));
        }
    }

    void load() {
        auto width = static_cast<std::uint8_t>(1 + random_.below(8));
        Space from = space();
        Operand at = offset();
        builder_.check_range(from, at, imm(width), outcome());
        keep(builder_.load(from, at, width, random_.one_in(2), random_.one_in(2)));
    }

    void store() {
        auto width = static_cast<std::uint8_t>(1 + random_.below(8));
        builder_.add(StoreState{imm(random_.below(57)), width, any()});
    }

    void varint() {
        Operand limit = random_.one_in(2) ? builder_.input(Input::block_length) : random_.one_in(10) ? any() : imm(64);
        auto [value, length] =
            builder_.varint(static_cast<VarintKind>(random_.below(3)), space(), offset(), limit, outcome());
        keep(value);
        keep(length);
    }

    void integer() {
        Reg r = builder_.new_reg();
        if (!random_.one_in(8)) {
            builder_.add(IntOfBytes{r, slice(7), random_.one_in(2), random_.one_in(2)});
        } else {
            builder_.add(ParseDecimal{r, slice(15), outcome()});
        }
        keep(r);
    }

    void compare() {
        Slice a = slice(31);
        Slice b = random_.one_in(4) ? Slice{Space::literal, imm(0), imm(8)} : slice(31);
        keep(builder_.compare(a, b, max_for(31)));
    }

    void hash() {
        std::uint64_t mask = random_.one_in(3) ? 511 : 63;
        keep(builder_.hash(static_cast<HashAlgo>(random_.below(3)), slice(mask), any(), max_for(mask)));
    }

    void find() { keep(builder_.find_byte(slice(127), any(), max_for(127))); }

    void copy() {
        Slice from = slice(31);
        Operand to = imm(random_.below(33));
        builder_.check_range(Space::state, to, from.length, outcome());
        builder_.add(CopyToState{to, from, max_for(31)});
    }

    void emit() {
        if (random_.one_in(2)) {
            builder_.add(EmitInt{any(), static_cast<std::uint8_t>(1 + random_.below(8)), kOutLimit});
        } else {
            builder_.add(EmitBytes{slice(63), max_for(63), kOutLimit});
        }
    }

    void next_or_prefetch() {
        if (kind_ == ProgramKind::entry || kind_ == ProgramKind::step) {
            auto step = static_cast<std::uint16_t>(random_.below(chain_->steps.size()));
            Operand length = random_.one_in(30) ? any() : imm(1 + random_.below(65536));
            builder_.add(Next{step, 0, any(), length, any()});
        } else if (kind_ == ProgramKind::shadow) {
            prefetch();
        }
    }

    void prefetch() {
        switch (random_.below(6)) {
            case 0: builder_.add(Prefetch{PrefetchKind::same, 0, {}, any(), any(), {}}); return;
            case 1:
                builder_.add(Prefetch{PrefetchKind::sibling, 0, {Space::literal, imm(0), imm(4)}, any(), any(), {}});
                return;
            case 2: {
                Slice name = slice(31);
                builder_.add(Prefetch{PrefetchKind::path, 0, name, any(), any(), {}});
                return;
            }
            case 3: builder_.add(Prefetch{PrefetchKind::mark, 0, {}, any(), any(), {}}); return;
            case 4: builder_.add(Prefetch{PrefetchKind::mark_via, 0, {}, any(), imm(0), {any(), any()}}); return;
            default: builder_.add(Prefetch{PrefetchKind::chain, 0, {}, imm(0), imm(0), {any(), any()}});
        }
    }

    // Mostly true, so that the program goes on.
    void check() {
        Operand cond = random_.one_in(20) ? any() : keep(builder_.binary(BinOp::ule, small(255), imm(250)));
        builder_.check(cond, outcome());
    }

    void leave(std::uint32_t depth) {
        if (depth == 0) return arithmetic();
        switch (random_.below(5)) {
            case 0:
                if (random_.one_in(2)) {
                    builder_.add(Fail{outcome()});
                } else {
                    builder_.add(End{});
                }
                return;
            case 1: return finish();
            default:
                if (loops_ == 0) return arithmetic();
                if (random_.one_in(2)) {
                    builder_.add(Break{});
                } else {
                    builder_.add(Continue{});
                }
        }
    }

    void finish() {
        ResultKind kind = chain_ == nullptr ? ResultKind::none : chain_->result;
        if (kind == ResultKind::slice) {
            Slice s = slice(63);
            builder_.add(Return{kind, imm(0), s});
        } else {
            builder_.add(Return{kind, any(), {}});
        }
    }

    void branch(std::uint32_t depth) {
        if (depth > 5) return arithmetic();
        bool both = random_.one_in(2);
        builder_.if_(
            any(), [&] { statements(depth + 1); },
            [&] {
                if (both) statements(depth + 1);
            });
    }

    void loop(std::uint32_t depth) {
        static constexpr std::uint32_t kMax[] = {1, 2, 3, 7, 16, 40, 600};
        std::uint32_t max = kMax[random_.below(std::size(kMax))];
        if (depth > 5 || rounds_ * max > kMaxRounds) return arithmetic();
        Operand count = random_.one_in(2) ? imm(random_.below(max + 1)) : small(max > 7 ? 15 : 3);
        // The copy of a variable that the body may assign: every engine has to take the rounds that it says here.
        const bool of_variable = random_.one_in(3);
        const Reg variable = variables_[random_.below(variables_.size())];
        if (of_variable) {
            const Operand other = imm(random_.below(max + 1));
            builder_.if_(any(), [&] { builder_.assign(variable, count); }, [&] { builder_.assign(variable, other); });
            count = Operand::reg(builder_.variable(Operand::reg(variable)));
        }
        rounds_ *= max;
        loops_++;
        builder_.loop(count, max, outcome(), [&](Operand i) {
            std::size_t known = known_.size();
            keep(i);
            if (of_variable && random_.one_in(2)) builder_.assign(variable, small(max > 7 ? 15 : 3));
            statements(depth + 1);
            known_.resize(known);
        });
        loops_--;
        rounds_ /= max;
    }

    Random& random_;
    const Chain* chain_;
    ProgramKind kind_;
    Builder builder_;
    std::uint64_t budget_;
    std::vector<Reg> known_, variables_;
    std::uint64_t rounds_ = 1;
    std::uint32_t loops_ = 0;
};

Chain call_chain(Random& random) {
    Chain chain;
    chain.name = "walk";
    Param key{Param::Kind::scalar, "key"}, name{Param::Kind::bytes, "name"};
    name.slot = 1;
    name.max = 40;
    chain.params = {{Param::Kind::file, "db"}, key, name};
    chain.arg_slots = 3;
    chain.result = static_cast<ResultKind>(random.below(3));
    chain.result_max = kOutLimit;
    chain.hops = 8;
    chain.state_bytes = 64;
    return chain;
}

}  // namespace

Artifact random_artifact(Random& random, std::uint32_t size) {
    Artifact artifact;
    Module& module = artifact.module;
    module.app = "random";
    module.sources = {"random.chain"};
    module.reasons = {"own"};
    FileClass files;
    files.name = "pages";
    files.pattern = "*";
    files.header_program = 0;
    files.header_bytes = 100;
    files.header_fields = {"a", "b"};
    module.files = {files};
    for (std::uint64_t i = 64 + random.below(60); i > 0; i--)
        module.literals.push_back(static_cast<std::uint8_t>(random.below(5)));
    Chain chain = call_chain(random);
    chain.steps = {{"first", 2}, {"second", 3}};
    chain.entry = 1;
    chain.done = 4;
    Chain shadow;
    shadow.name = "ahead";
    shadow.mode = ChainMode::on_read;
    shadow.shadow = 5;
    auto add = [&](const Chain* owner, const char* name, ProgramKind kind) {
        module.programs.push_back(ProgramMaker(random, owner, name, kind, size).make());
    };
    add(nullptr, "header.Head", ProgramKind::header);
    add(&chain, "walk.entry", ProgramKind::entry);
    add(&chain, "walk.first", ProgramKind::step);
    add(&chain, "walk.second", ProgramKind::step);
    add(&chain, "walk.done", ProgramKind::done);
    add(&shadow, "ahead.shadow", ProgramKind::shadow);
    module.chains = {chain, shadow};
    artifact.layout = layout_of(module);
    return artifact;
}

}  // namespace chainio::tests
