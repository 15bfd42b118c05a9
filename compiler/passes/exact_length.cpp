#include "compiler/passes/exact_length.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/flow.h"

namespace chainio::passes {
namespace {

// How many bytes the chain has emitted where the flow comes to some place; nothing: one cannot tell.
using Length = std::optional<std::uint64_t>;

// The lengths that come together at one place, if any does.
struct Arriving {
    bool any = false;
    Length length;
    void add(Length other) {
        length = any && length != other ? std::nullopt : other;
        any = true;
    }
    void add(const Arriving& other) {
        if (other.any) add(other.length);
    }
};

// Whether the flow comes out of the body having emitted something.
bool emits(const ir::Body& body) {
    const auto is_emit = [](const ir::Stmt& stmt) {
        return std::holds_alternative<ir::EmitInt>(stmt.node) || std::holds_alternative<ir::EmitBytes>(stmt.node);
    };
    return follow(body, false, is_emit).any();
}

// Whether each read that is queued ends the step, so that there is one at a time and the step that queues none is the
// last.
bool is_sequence(const ir::Body& body) {
    for (std::size_t i = 0; i < body.size(); i++) {
        if (std::holds_alternative<ir::Next>(body[i].node) &&
            (i + 1 == body.size() || !std::holds_alternative<ir::End>(body[i + 1].node)))
            return false;
        bool nested_is = true;
        ir::for_each_body(body[i], [&](const ir::Body& nested) { nested_is = nested_is && is_sequence(nested); });
        if (!nested_is) return false;
    }
    return true;
}

class Emitted {
  public:
    explicit Emitted(std::uint32_t wanted) : wanted_(wanted) {}

    Arriving goes_on;             // where a step ends with `goto`
    ir::Program* into = nullptr;  // gets the comparisons before its returns, when it is there

    // What arrives behind the body.
    Arriving walk(ir::Body& body, Length length) {
        for (std::size_t i = 0; i < body.size(); i++) {
            ir::Stmt& stmt = body[i];
            if (const auto* emit = std::get_if<ir::EmitInt>(&stmt.node)) {
                if (length) *length += emit->width;
            } else if (const auto* bytes = std::get_if<ir::EmitBytes>(&stmt.node)) {
                length = length && bytes->bytes.length.is_imm ? Length(*length + bytes->bytes.length.value) : Length();
            } else if (auto* branch = std::get_if<ir::If>(&stmt.node)) {
                Arriving behind = walk(branch->yes, length);
                behind.add(walk(branch->no, length));
                if (!behind.any) return {};
                length = behind.length;
            } else if (auto* loop = std::get_if<ir::Loop>(&stmt.node)) {
                if (emits(loop->body)) length = {};  // there may be any number of rounds
                walk(loop->body, length);
            } else if (std::holds_alternative<ir::Return>(stmt.node) && into != nullptr && length != wanted_) {
                const std::vector<ir::Stmt> comparison = compare(stmt.line);
                body.insert(body.begin() + static_cast<std::ptrdiff_t>(i), comparison.begin(), comparison.end());
                return {};
            } else if (std::holds_alternative<ir::End>(stmt.node)) {
                goes_on.add(length);
            }
            if (ir::is_terminator(body[i])) return {};
        }
        Arriving end;
        end.add(length);
        return end;
    }

    std::vector<ir::Stmt> compare(ir::Line line) {
        const auto reg = [&] {
            into->reg_names.emplace_back();
            return into->reg_count++;
        };
        const ir::Reg emitted = reg(), same = reg();
        return {{line, ir::GetInput{emitted, ir::Input::out_length}},
                {line, ir::Binary{same, ir::BinOp::eq, ir::Operand::reg(emitted), ir::Operand::imm(wanted_)}},
                {line, ir::Check{ir::Operand::reg(same), CIO_MALFORMED}}};
    }

  private:
    std::uint32_t wanted_;
};

}  // namespace

bool compare_emitted(const std::vector<ir::Program*>& steps, ir::Program* done, std::uint32_t length) {
    Emitted look(length);
    Arriving falls;
    bool sequence = true;
    for (ir::Program* step : steps) {
        sequence = sequence && is_sequence(step->body);
        falls.add(look.walk(step->body, 0));
    }
    // A step begins with nothing emitted where no step goes on having emitted something.
    if (!sequence) look.goes_on.add(falls);
    const Length begin = !look.goes_on.any || look.goes_on.length == 0 ? Length(0) : Length();
    Arriving last;
    for (ir::Program* step : steps) {
        look.into = step;
        last.add(look.walk(step->body, begin));
    }
    if (done == nullptr) return last.any && last.length != length;
    look.into = done;
    const Arriving end = look.walk(done->body, last.length);
    if (!end.any || end.length == length) return false;
    const std::vector<ir::Stmt> comparison = look.compare(done->body.empty() ? ir::Line{} : done->body.back().line);
    done->body.insert(done->body.end(), comparison.begin(), comparison.end());
    return false;
}

ir::Program comparing_done(std::string name, ir::Line line, std::uint32_t length) {
    ir::Builder b(std::move(name), ir::ProgramKind::done);
    b.line = line;
    b.check(b.binary(ir::BinOp::eq, b.input(ir::Input::out_length), ir::Operand::imm(length)), CIO_MALFORMED);
    return b.finish();
}

}  // namespace chainio::passes
