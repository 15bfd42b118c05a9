#include "compiler/ir/dump_stmt.h"

#include <fmt/format.h>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/names.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

class Printer {
  public:
    Printer(const Module& module, const Program& program, std::string& out)
        : module_(module), program_(program), out_(out) {}

    void body(const Body& statements, std::size_t depth) {
        for (const Stmt& stmt : statements) {
            out_.append(depth * 2, ' ');
            if (auto* branch = std::get_if<If>(&stmt.node)) {
                if_statement(*branch, depth);
            } else if (auto* loop = std::get_if<Loop>(&stmt.node)) {
                out_ += fmt::format("loop {} < {} max {} else {} {{\n", reg(loop->counter), op(loop->count), loop->max,
                                    outcome(loop->outcome));
                body(loop->body, depth + 1);
                close(depth);
            } else {
                out_ += std::visit([&](const auto& n) { return text(n); }, stmt.node);
                out_ += '\n';
            }
        }
    }

  private:
    void close(std::size_t depth) { out_.append(depth * 2, ' ') += "}\n"; }

    void if_statement(const If& branch, std::size_t depth) {
        out_ += fmt::format("if {} {{\n", op(branch.cond));
        body(branch.yes, depth + 1);
        if (!branch.no.empty()) {
            out_.append(depth * 2, ' ') += "} else {\n";
            body(branch.no, depth + 1);
        }
        close(depth);
    }

    std::string reg(Reg r) const {
        if (r < program_.reg_names.size() && !program_.reg_names[r].empty())
            return fmt::format("%{}.{}", program_.reg_names[r], r);
        return fmt::format("%{}", r);
    }
    // Small numbers read best in decimal, addresses and masks in hexadecimal; negative ones as what they mean.
    std::string op(const Operand& o) const {
        if (!o.is_imm) return reg(static_cast<Reg>(o.value));
        auto as_signed = static_cast<std::int64_t>(o.value);
        if (as_signed < 0 && as_signed > -65536) return std::to_string(as_signed);
        return o.value < 1u << 20 ? std::to_string(o.value) : fmt::format("{:#x}", o.value);
    }
    std::string slice(const Slice& s) const {
        return fmt::format("{}[{} +{}]", name_of(s.space), op(s.offset), op(s.length));
    }
    std::string outcome(std::uint32_t o) const { return outcome_name(module_, o); }
    static std::string int_type(std::uint32_t width, bool is_signed, bool big_endian) {
        std::string type = fmt::format("{}{}", is_signed ? 'i' : 'u', width * 8);
        return width == 1 ? type : type + (big_endian ? "be" : "le");
    }
    template <class T, class F>
    std::string list(const std::vector<T>& items, F&& f) const {
        std::string joined;
        for (const T& item : items) joined += (joined.empty() ? "" : ", ") + f(item);
        return joined;
    }

    std::string text(const Move& n) const { return fmt::format("{} = {}", reg(n.dst), op(n.src)); }
    std::string text(const Unary& n) const { return fmt::format("{} = {} {}", reg(n.dst), name_of(n.op), op(n.a)); }
    std::string text(const Binary& n) const {
        return fmt::format("{} = {} {}, {}", reg(n.dst), name_of(n.op), op(n.a), op(n.b));
    }
    std::string text(const Select& n) const {
        return fmt::format("{} = select {}, {}, {}", reg(n.dst), op(n.cond), op(n.a), op(n.b));
    }
    std::string text(const GetInput& n) const { return fmt::format("{} = input {}", reg(n.dst), name_of(n.input)); }
    std::string text(const GetArg& n) const { return fmt::format("{} = arg {}", reg(n.dst), n.index); }
    std::string text(const Load& n) const {
        return fmt::format("{} = load {} {}[{}]", reg(n.dst), int_type(n.width, n.is_signed, n.big_endian),
                           name_of(n.space), op(n.offset));
    }
    std::string text(const StoreState& n) const {
        return fmt::format("store {} state[{}] = {}", int_type(n.width, false, false), op(n.offset), op(n.src));
    }
    std::string text(const Check& n) const { return fmt::format("check {} else {}", op(n.cond), outcome(n.outcome)); }
    std::string text(const CheckRange& n) const {
        return fmt::format("check {} else {}", slice({n.space, n.offset, n.length}), outcome(n.outcome));
    }
    std::string text(const Varint& n) const {
        return fmt::format("{}, {} = varint {} {}[{} ..{}] else {}", reg(n.value), reg(n.length), name_of(n.kind),
                           name_of(n.space), op(n.offset), op(n.limit), outcome(n.outcome));
    }
    std::string text(const IntOfBytes& n) const {
        return fmt::format("{} = int {}{} {}", reg(n.dst), n.is_signed ? 'i' : 'u', n.big_endian ? "be" : "le",
                           slice(n.bytes));
    }
    std::string text(const Compare& n) const {
        return fmt::format("{} = compare {}, {} max {}", reg(n.dst), slice(n.a), slice(n.b), n.max);
    }
    std::string text(const Hash& n) const {
        return fmt::format("{} = hash {} {} seed {} max {}", reg(n.dst), name_of(n.algo), slice(n.bytes), op(n.seed),
                           n.max);
    }
    std::string text(const FindByte& n) const {
        return fmt::format("{} = find {} in {} max {}", reg(n.dst), op(n.byte), slice(n.bytes), n.max);
    }
    std::string text(const ParseDecimal& n) const {
        return fmt::format("{} = decimal {} else {}", reg(n.dst), slice(n.bytes), outcome(n.outcome));
    }
    std::string text(const CopyToState& n) const {
        return fmt::format("copy state[{}] = {} max {}", op(n.dst_offset), slice(n.src), n.max);
    }
    std::string text(const EmitInt& n) const {
        return fmt::format("emit {} {} limit {}", int_type(n.width, false, false), op(n.value), n.limit);
    }
    std::string text(const EmitBytes& n) const {
        return fmt::format("emit {} max {} limit {}", slice(n.bytes), n.max, n.limit);
    }
    std::string text(const Next& n) const {
        return fmt::format("next step {} at {} for {} in file {} tag {}", n.step, op(n.offset), op(n.length), n.file,
                           op(n.tag));
    }
    std::string text(const Return& n) const {
        if (n.kind == ResultKind::scalar) return "return " + op(n.scalar);
        return n.kind == ResultKind::slice ? "return " + slice(n.slice) : "return";
    }
    std::string text(const Fail& n) const { return "fail " + outcome(n.outcome); }
    std::string text(const End&) const { return "end"; }
    std::string text(const Prefetch& n) const {
        std::string s = fmt::format("prefetch {} {}", name_of(n.kind), n.target);
        const bool of_file = n.offset.is_imm && n.offset.value == CIO_MARK_FILE;
        const std::string place = of_file ? "file" : "at " + op(n.offset);
        if (n.kind == PrefetchKind::mark) return "mark " + place + " with " + op(n.length);
        if (is_call(n.kind)) s += "(" + list(n.args, [&](const Operand& o) { return op(o); }) + ")";
        if (n.kind == PrefetchKind::mark_via) return s + " marks " + place;
        if (n.kind == PrefetchKind::chain) return s;
        if (n.kind != PrefetchKind::same) s += " name " + slice(n.name);
        return s + fmt::format(" at {} for {}", op(n.offset), op(n.length));
    }
    std::string text(const CallChain& n) const {
        return fmt::format(
            "{}, {} = call {} (result {}) args ({}) bytes ({}) files ({}){}", reg(n.ok), reg(n.scalar), n.chain,
            n.result, list(n.args, [&](const Operand& o) { return op(o); }),
            list(n.bytes_args, [&](const Slice& s) { return slice(s); }),
            list(n.files, [&](const CallFile& f) { return fmt::format("{} {}", f.file_class, slice(f.name)); }),
            n.closes ? " closes" : "");
    }
    std::string text(const Reply& n) const {
        return "reply " + list(n.parts, [&](const ReplyPart& p) {
                   return p.format == Format::bytes ? slice(p.bytes)
                                                    : op(p.value) + ":" + std::string(name_of(p.format));
               });
    }
    std::string text(const Skip& n) const { return "skip " + op(n.bytes); }
    std::string text(const Break&) const { return "break"; }
    std::string text(const Continue&) const { return "continue"; }
    std::string text(const If&) const { return "if"; }  // printed by body()
    std::string text(const Loop&) const { return "loop"; }

    const Module& module_;
    const Program& program_;
    std::string& out_;
};

}  // namespace

void dump_body(const Module& module, const Program& program, const Body& body, std::size_t depth, std::string& out) {
    Printer(module, program, out).body(body, depth);
}

std::string quoted(std::string_view bytes) {
    std::string text = "\"";
    for (char c : bytes) {
        if (c == '"' || c == '\\') {
            text += '\\';
            text += c;
        } else if (c >= ' ' && c <= '~') {
            text += c;
        } else {
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return text + '"';
}

}  // namespace chainio::ir
