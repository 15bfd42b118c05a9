// A service's handler as C of the kernel engine: a function that stops at the call of a chain, and goes on behind it
// when it is called again.
#include <fmt/format.h>

#include <algorithm>

#include "bpf-templates/chainio_step.h"
#include "compiler/backends/emit_function.h"
#include "compiler/ir/size.h"
#include "compiler/ir/visit.h"

namespace chainio::backends {
namespace {

void collect(const ir::Body& body, std::vector<const ir::CallChain*>& calls) {
    for (const ir::Stmt& stmt : body) {
        if (const auto* call = std::get_if<ir::CallChain>(&stmt.node)) calls.push_back(call);
        ir::for_each_body(stmt, [&](const ir::Body& nested) { collect(nested, calls); });
    }
}

// As the chain's argument wants it: the low bits, with or without their sign.
std::string narrowed(const std::string& value, const ir::Param& param) {
    if (param.bits >= 64) return value;
    if (param.is_signed) return fmt::format("cio_sext({}, {})", value, param.bits);
    return fmt::format("({} & {:#x}ull)", value, (std::uint64_t{1} << param.bits) - 1);
}

// The low bytes of this are the number in the order that the format asks for.
std::string in_order(const std::string& value, ir::Format format) {
    switch (format) {
        case ir::Format::u16be: return fmt::format("cio_bswap({}, 16)", value);
        case ir::Format::u32be: return fmt::format("cio_bswap({}, 32)", value);
        case ir::Format::u64be: return fmt::format("cio_bswap({}, 64)", value);
        default: return value;
    }
}

}  // namespace

std::string FunctionEmitter::handler(const std::vector<const ir::CallChain*>& calls) {
    calls_ = &calls;
    const ir::Program& program = artifact_.module.programs[number_];
    std::vector<const ir::CallChain*> own;
    collect(program.body, own);
    std::string text, resume;
    body(program.body, {0, true}, text);
    for (const ir::CallChain* call : own) {
        const auto site = std::ranges::find(calls, call) - calls.begin();
        resume += fmt::format(" case {0}: goto behind_{0};", site + 1);
    }
    if (!resume.empty()) resume = " switch (c->resume) {" + resume + " }";
    last_line_ = {};
    std::string head = "\n";
    if (!program.body.empty()) line(program.body.front().line, head);
    return fmt::format("\n/* {} */{}CIO_HANDLER({}) {{ CIO_HANDLER_ENTER{}{}\nreturn CIO_STOP; }}\n", program.name,
                       head, number_, resume, text);
}

// Writes one argument where the chain's programs look for it; `used_` counts the bytes of those before.
std::string FunctionEmitter::argument(const ir::Param& param, const ir::CallChain& call, std::size_t& scalars,
                                      std::size_t& bytes) {
    if (param.kind == ir::Param::Kind::scalar)
        return fmt::format("m->io.args[{}] = {}; ", param.slot, narrowed(operand(call.args[scalars++]), param));
    const ir::Slice& from = call.bytes_args[bytes++];
    helpers_.need("argument", from.space, ir::Space::block, std::max(param.max, 1u));
    return check(fmt::format("{} <= {}", operand(from.length), param.max), CIO_OVERFLOW) +
           fmt::format(
               " cio_argument_{}(m, b, used_, {}, {}); m->io.args[{}] = used_; m->io.args[{}] = {}; used_ += {}; ",
               space_word(from.space), operand(from.offset), operand(from.length), param.slot, param.slot + 1,
               operand(from.length), operand(from.length));
}

// Of native code only: what skips is not answered inside the kernel.
std::string FunctionEmitter::stmt(const ir::Skip& n, Scope) {
    return fmt::format("m->io.result += cio_min({}, {}ull);", operand(n.bytes), ir::kMaxSkip + 1);
}

std::string FunctionEmitter::stmt(const ir::CallChain& n, Scope) {
    if (calls_ == nullptr) return halt();
    const ir::Chain& chain = artifact_.module.chains[n.chain];
    std::string text = "{ u64 used_ = 0; (void)used_; ";
    std::size_t scalars = 0, bytes = 0;
    for (const ir::Param& param : chain.params)
        if (param.kind != ir::Param::Kind::file) text += argument(param, n, scalars, bytes);
    if (bytes != 0) text += "cio_arguments_end(m, used_); ";
    const auto site = std::ranges::find(*calls_, &n) - calls_->begin();
    return text + fmt::format("c->site = {0}; c->resume = {1}; return CIO_CALLS; }} behind_{1}: {2} {3}", site,
                              site + 1, set(n.ok, "c->ok"), set(n.scalar, "c->scalar"));
}

std::string FunctionEmitter::reply_part(const ir::ReplyPart& part) {
    if (part.format == ir::Format::dec || part.format == ir::Format::hex)
        return check(fmt::format("cio_reply_digits(c, o, {}, {})", operand(part.value),
                                 part.format == ir::Format::dec ? 10 : 16),
                     CIO_OVERFLOW);
    if (part.format != ir::Format::bytes)
        return check(fmt::format("cio_reply_number(c, o, {}, {})", in_order(operand(part.value), part.format),
                                 ir::width_of(part.format)),
                     CIO_OVERFLOW);
    const bool result = part.bytes.space == ir::Space::result;
    const ir::Space space = result ? ir::Space::block : part.bytes.space;
    helpers_.need("reply", space, ir::Space::block, CIO_MAX_BLOCK);
    const std::string place = fmt::format("{}, {}", operand(part.bytes.offset), operand(part.bytes.length));
    return check(
        fmt::format("{}cio_reply_{}({}, c, o, {})", result ? fmt::format("cio_reply_stretch(c, {}) || ", place) : "",
                    space_word(space), result ? "r" : "b", place),
        CIO_OVERFLOW);
}

std::string FunctionEmitter::stmt(const ir::Reply& n, Scope) {
    if (calls_ == nullptr) return halt();
    std::string text;
    for (const ir::ReplyPart& part : n.parts) text += reply_part(part) + " ";
    return text;
}

}  // namespace chainio::backends
