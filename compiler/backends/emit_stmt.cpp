// The statements without control flow.
#include <fmt/format.h>

#include <algorithm>

#include "bpf-templates/chainio_step.h"
#include "compiler/backends/emit_function.h"

namespace chainio::backends {
namespace {

std::string_view hash_word(ir::HashAlgo algo) {
    switch (algo) {
        case ir::HashAlgo::crc32c: return "crc32c";
        case ir::HashAlgo::xxh64: return "xxh64";
        case ir::HashAlgo::fnv1a: return "fnv1a";
    }
    return "fnv1a";
}

}  // namespace

std::string FunctionEmitter::stmt(const ir::Move& n, Scope) { return set(n.dst, operand(n.src)); }

std::string FunctionEmitter::unary(const ir::Unary& n) const {
    std::string a = operand(n.a);
    switch (n.op) {
        case ir::UnOp::neg: return fmt::format("0 - {}", a);
        case ir::UnOp::bit_not: return fmt::format("~{}", a);
        case ir::UnOp::logical_not: return fmt::format("{} == 0", a);
        case ir::UnOp::sext8: return fmt::format("cio_sext({}, 8)", a);
        case ir::UnOp::sext16: return fmt::format("cio_sext({}, 16)", a);
        case ir::UnOp::sext32: return fmt::format("cio_sext({}, 32)", a);
        case ir::UnOp::zext8: return fmt::format("(u8){}", a);
        case ir::UnOp::zext16: return fmt::format("(u16){}", a);
        case ir::UnOp::zext32: return fmt::format("(u32){}", a);
        case ir::UnOp::bswap16: return fmt::format("cio_bswap({}, 16)", a);
        case ir::UnOp::bswap32: return fmt::format("cio_bswap({}, 32)", a);
        case ir::UnOp::bswap64: return fmt::format("cio_bswap({}, 64)", a);
    }
    return a;
}

std::string FunctionEmitter::stmt(const ir::Unary& n, Scope) { return set(n.dst, unary(n)); }

std::string FunctionEmitter::binary(const ir::Binary& n) const {
    std::string a = operand(n.a), b = operand(n.b);
    auto infix = [&](std::string_view op) { return fmt::format("{} {} {}", a, op, b); };
    auto call = [&](std::string_view f) { return fmt::format("cio_{}({}, {})", f, a, b); };
    switch (n.op) {
        case ir::BinOp::add: return infix("+");
        case ir::BinOp::sub: return infix("-");
        case ir::BinOp::mul: return infix("*");
        case ir::BinOp::udiv: return call("div");
        case ir::BinOp::umod: return call("mod");
        case ir::BinOp::bit_and: return infix("&");
        case ir::BinOp::bit_or: return infix("|");
        case ir::BinOp::bit_xor: return infix("^");
        case ir::BinOp::shl: return fmt::format("{} << ({} & 63)", a, b);
        case ir::BinOp::lshr: return fmt::format("{} >> ({} & 63)", a, b);
        case ir::BinOp::ashr: return fmt::format("(u64)((s64){} >> ({} & 63))", a, b);
        case ir::BinOp::eq: return infix("==");
        case ir::BinOp::ne: return infix("!=");
        case ir::BinOp::ult: return infix("<");
        case ir::BinOp::ule: return infix("<=");
        case ir::BinOp::slt: return fmt::format("(s64){} < (s64){}", a, b);
        case ir::BinOp::sle: return fmt::format("(s64){} <= (s64){}", a, b);
        case ir::BinOp::umin: return call("min");
        case ir::BinOp::umax: return call("max");
    }
    return a;
}

std::string FunctionEmitter::stmt(const ir::Binary& n, Scope) { return set(n.dst, binary(n)); }

std::string FunctionEmitter::stmt(const ir::Select& n, Scope) {
    return set(n.dst, fmt::format("{} ? {} : {}", operand(n.cond), operand(n.a), operand(n.b)));
}

std::string FunctionEmitter::stmt(const ir::GetInput& n, Scope) {
    switch (n.input) {
        case ir::Input::block_offset: return set(n.dst, "m->io.block_offset");
        case ir::Input::block_length: return set(n.dst, "CIO_BLOCK_LENGTH");
        case ir::Input::block_tag: return set(n.dst, "m->io.block_tag");
        case ir::Input::out_length: return set(n.dst, "m->io.out_length");
    }
    return set(n.dst, "0");
}

std::string FunctionEmitter::stmt(const ir::GetArg& n, Scope) {
    return set(n.dst, fmt::format("m->io.args[{}]", n.index));
}

std::string FunctionEmitter::load(const ir::Load& n) const {
    std::string value = fmt::format("cio_{}({}, {})", n.big_endian ? "be" : "le", at(n.space, n.offset), n.width);
    if (!n.is_signed || n.width == 8) return value;
    return fmt::format("cio_sext({}, {})", value, 8 * n.width);
}

std::string FunctionEmitter::stmt(const ir::Load& n, Scope) {
    return check_result({n.space, n.offset, ir::Operand::imm(n.width)}) + set(n.dst, load(n));
}

std::string FunctionEmitter::stmt(const ir::StoreState& n, Scope) {
    return fmt::format("cio_put({}, {}, {});", at(ir::Space::state, n.offset), operand(n.src), n.width);
}

std::string FunctionEmitter::stmt(const ir::Check& n, Scope) { return check(operand(n.cond), n.outcome); }

std::string FunctionEmitter::stmt(const ir::CheckRange& n, Scope) {
    // The upper half of an offset in a result is the result's number. The kernel engine has one result at a time.
    if (n.space == ir::Space::result && calls_ == nullptr)
        return check(fmt::format("cio_inside_result(m, {}, {})", operand(n.offset), operand(n.length)), n.outcome);
    const std::string_view low = n.space == ir::Space::result ? "(u32)" : "";
    return check(fmt::format("cio_inside({}{}, {}, {})", low, operand(n.offset), operand(n.length), size_of(n.space)),
                 n.outcome);
}

std::string FunctionEmitter::stmt(const ir::Varint& n, Scope) {
    std::string_view kind = n.kind == ir::VarintKind::sqlite ? "sqlite" : "leb128";
    helpers_.need(fmt::format("varint_{}", kind), n.space);
    const std::string end = n.space == ir::Space::result
                                ? fmt::format("cio_end_of_result(m, {}, {})", operand(n.offset), operand(n.limit))
                                : fmt::format("cio_min({}, {})", operand(n.limit), size_of(n.space));
    std::string_view value = n.kind == ir::VarintKind::zigzag ? "value_ >> 1 ^ (0 - (value_ & 1))" : "value_";
    return fmt::format(
        "{{ u64 second_ = 0; (void)second_; u64 length_ = cio_varint_{}_{}(m, b, {}, {} CIO_SECOND_ARG); "
        "{} "
        "u64 value_ = CIO_SECOND; {} {} }}",
        kind, space_word(n.space), operand(n.offset), end, check("length_", n.outcome), set(n.value, value),
        set(n.length, "length_"));
}

std::string FunctionEmitter::stmt(const ir::IntOfBytes& n, Scope) {
    helpers_.need("bytes8");
    std::string length = operand(n.bytes.length);
    std::string value =
        fmt::format("cio_int_{}({}, {})", n.big_endian ? "be" : "le", at(n.bytes.space, n.bytes.offset), length);
    if (n.is_signed) value = fmt::format("cio_int_sext({}, {})", value, length);
    std::string fits = n.bytes.length.is_imm && n.bytes.length.value <= 8
                           ? ""
                           : check(fmt::format("{} <= 8", length), CIO_MALFORMED) + " ";
    return check_result(n.bytes) + fits + set(n.dst, value);
}

std::string FunctionEmitter::stmt(const ir::Compare& n, Scope) {
    helpers_.need("compare", n.a.space, n.b.space, n.max);
    const auto bounded = [&](const ir::Slice& s) { return s.length.is_imm && s.length.value <= n.max; };
    const std::string shorter = fmt::format("cio_min({}, {}) <= {}", operand(n.a.length), operand(n.b.length), n.max);
    return check_result(n.a) + check_result(n.b) +
           (bounded(n.a) || bounded(n.b) ? "" : check(shorter, CIO_OVERFLOW) + " ") +
           set(n.dst, fmt::format("cio_compare_{}_{}(m, b, {}, {}, {} | {} << 32)", space_word(n.a.space),
                                  space_word(n.b.space), operand(n.a.offset), operand(n.b.offset), operand(n.a.length),
                                  operand(n.b.length)));
}

std::string FunctionEmitter::stmt(const ir::Hash& n, Scope) {
    std::string_view word = hash_word(n.algo);
    helpers_.need(std::string(word), n.bytes.space, ir::Space::block, n.max);
    return check_max(n.bytes, n.max) +
           set(n.dst, fmt::format("cio_{}_{}(m, b, {}, {}, {})", word, space_word(n.bytes.space), operand(n.seed),
                                  operand(n.bytes.offset), operand(n.bytes.length)));
}

std::string FunctionEmitter::stmt(const ir::FindByte& n, Scope) {
    helpers_.need("find", n.bytes.space, ir::Space::block, n.max);
    return check_max(n.bytes, n.max) +
           set(n.dst, fmt::format("cio_find_{}(m, b, {}, {}, {})", space_word(n.bytes.space), operand(n.bytes.offset),
                                  operand(n.bytes.length), operand(n.byte)));
}

std::string FunctionEmitter::stmt(const ir::ParseDecimal& n, Scope) {
    helpers_.need("decimal", n.bytes.space);
    std::string call = fmt::format("cio_decimal_{}(m, b, {}, {} CIO_SECOND_ARG)", space_word(n.bytes.space),
                                   operand(n.bytes.offset), operand(n.bytes.length));
    return fmt::format("{}{{ u64 second_ = 0; (void)second_; {} {} }}", check_result(n.bytes), check(call, n.outcome),
                       set(n.dst, "CIO_SECOND"));
}

std::string FunctionEmitter::stmt(const ir::CopyToState& n, Scope) {
    helpers_.need("copy", n.src.space, ir::Space::block, n.max);
    return check_max(n.src, n.max) + fmt::format("cio_copy_{}(m, b, {}, {}, {});", space_word(n.src.space),
                                                 operand(n.dst_offset), operand(n.src.offset), operand(n.src.length));
}

std::string FunctionEmitter::stmt(const ir::EmitInt& n, Scope) {
    helpers_.need("emit_int");
    return check(fmt::format("cio_emit_int(m, {}, {}, {})", operand(n.value), n.width, n.limit), CIO_OVERFLOW);
}

std::string FunctionEmitter::stmt(const ir::EmitBytes& n, Scope) {
    helpers_.need("emit", n.bytes.space, ir::Space::block, n.max);
    return check_max(n.bytes, n.max) + check(fmt::format("cio_emit_{}(m, b, {}, {}, {})", space_word(n.bytes.space),
                                                         operand(n.bytes.offset), operand(n.bytes.length), n.limit),
                                             CIO_OVERFLOW);
}

std::string FunctionEmitter::stmt(const ir::Next& n, Scope) {
    helpers_.need("next");
    std::uint64_t where = n.step | static_cast<std::uint64_t>(n.file) << 32;
    return fmt::format("{{ int outcome_ = cio_next(m, {:#x}ull, {}, {}, {}); CIO_CHECK(!outcome_, (u32)outcome_); }}",
                       where, operand(n.offset), operand(n.length), operand(n.tag));
}

std::string FunctionEmitter::stmt(const ir::Return& n, Scope) {
    switch (n.kind) {
        case ir::ResultKind::none: return "return cio_finish(m, CIO_RESULT_NONE);";
        case ir::ResultKind::scalar: return fmt::format("return cio_finish_scalar(m, {});", operand(n.scalar));
        case ir::ResultKind::slice: break;
    }
    return fmt::format("return cio_finish_slice(m, {}, {}, {});", static_cast<int>(n.slice.space),
                       operand(n.slice.offset), operand(n.slice.length));
}

std::string FunctionEmitter::stmt(const ir::Fail& n, Scope) {
    return fmt::format("return cio_fail(m, {});", n.outcome);
}

std::string FunctionEmitter::stmt(const ir::End&, Scope) { return "return CIO_STOP;"; }

std::string FunctionEmitter::stmt(const ir::Prefetch& n, Scope) {
    helpers_.need("prefetch");
    bool named = n.kind == ir::PrefetchKind::sibling || n.kind == ir::PrefetchKind::path;
    bool ranged = n.kind != ir::PrefetchKind::chain;
    std::string text = fmt::format("CIO_PREFETCH({}, {}, {}, {}, {}, {}, {}", static_cast<int>(n.kind), n.target,
                                   named ? static_cast<int>(n.name.space) : 0, named ? operand(n.name.offset) : "0",
                                   named ? operand(n.name.length) : "0", ranged ? operand(n.offset) : "0",
                                   ranged ? operand(n.length) : "0");
    for (std::size_t i = 0; i < 4; i++)
        text += ", " + (ir::is_call(n.kind) && i < n.args.size() ? operand(n.args[i]) : "0");
    return text + ");";
}

}  // namespace chainio::backends
