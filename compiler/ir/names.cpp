#include "compiler/ir/names.h"

#include <array>

#include "bpf-templates/chainio_step.h"

namespace chainio::ir {
namespace {

template <std::size_t N, class E>
std::string_view pick(const std::array<std::string_view, N>& words, E value) {
    auto index = static_cast<std::size_t>(value);
    return index < N ? words[index] : std::string_view("?");
}

}  // namespace

std::string_view name_of(Space s) {
    static constexpr auto words = std::to_array<std::string_view>({"block", "args", "state", "literal", "result"});
    return pick(words, s);
}

std::string_view name_of(UnOp op) {
    static constexpr auto words =
        std::to_array<std::string_view>({"neg", "not", "lnot", "sext8", "sext16", "sext32", "zext8", "zext16", "zext32",
                                         "bswap16", "bswap32", "bswap64"});
    return pick(words, op);
}

std::string_view name_of(BinOp op) {
    static constexpr auto words =
        std::to_array<std::string_view>({"add", "sub", "mul", "udiv", "umod", "and", "or", "xor", "shl", "lshr", "ashr",
                                         "eq", "ne", "ult", "ule", "slt", "sle", "umin", "umax"});
    return pick(words, op);
}

std::string_view name_of(VarintKind kind) {
    static constexpr auto words = std::to_array<std::string_view>({"leb128", "zigzag", "sqlite"});
    return pick(words, kind);
}

std::string_view name_of(HashAlgo algo) {
    static constexpr auto words = std::to_array<std::string_view>({"crc32c", "xxh64", "fnv1a"});
    return pick(words, algo);
}

std::string_view name_of(Input input) {
    static constexpr auto words =
        std::to_array<std::string_view>({"block_offset", "block_length", "block_tag", "out_length"});
    return pick(words, input);
}

std::string_view name_of(PrefetchKind kind) {
    static constexpr auto words =
        std::to_array<std::string_view>({"same", "sibling", "path", "chain", "mark", "mark_via"});
    return pick(words, kind);
}

std::string_view name_of(Format format) {
    static constexpr auto words = std::to_array<std::string_view>(
        {"bytes", "dec", "hex", "u8", "u16le", "u16be", "u32le", "u32be", "u64le", "u64be"});
    return pick(words, format);
}

std::string_view name_of(ProgramKind kind) {
    static constexpr auto words =
        std::to_array<std::string_view>({"entry", "step", "done", "header", "shadow", "handler"});
    return pick(words, kind);
}

std::string_view name_of(ChainMode mode) {
    static constexpr auto words = std::to_array<std::string_view>({"call", "read", "open", "ready", "probe"});
    return pick(words, mode);
}

std::string outcome_name(const Module& module, std::uint32_t outcome) {
    static constexpr auto words = std::to_array<std::string_view>(
        {"ok", "malformed", "not_found", "overflow", "short_read", "io_error", "hop_limit", "no_memory", "cancelled",
         "no_result", "fanout", "bad_argument", "unsupported"});
    static_assert(words.size() == CIO_UNSUPPORTED + 1);
    if (outcome < words.size()) return std::string(words[outcome]);
    if (outcome >= CIO_USER && outcome - CIO_USER < module.reasons.size()) return module.reasons[outcome - CIO_USER];
    return "outcome " + std::to_string(outcome);
}

}  // namespace chainio::ir
