#include "tests/support/bpf_machine.h"

#include <fmt/format.h>

#include <cstring>

namespace chainio::tests {
namespace {

constexpr std::size_t kFrames = 8, kStack = 512;
// What a reference to a map evaluates to; the lookup helper turns it into the memory.
constexpr std::uint64_t kIoMap = 0x10000, kBlockMap = 0x20000;

std::uint64_t alu(std::uint8_t op, std::uint64_t a, std::uint64_t b, bool wide, bool& known) {
    std::uint32_t shift = static_cast<std::uint32_t>(b) & (wide ? 63 : 31);
    if (!wide) a = static_cast<std::uint32_t>(a), b = static_cast<std::uint32_t>(b);
    switch (op) {
        case BPF_ADD: return a + b;
        case BPF_SUB: return a - b;
        case BPF_MUL: return a * b;
        case BPF_DIV: return b == 0 ? 0 : a / b;
        case BPF_MOD: return b == 0 ? a : a % b;
        case BPF_OR: return a | b;
        case BPF_AND: return a & b;
        case BPF_XOR: return a ^ b;
        case BPF_LSH: return a << shift;
        case BPF_RSH: return a >> shift;
        case BPF_ARSH:
            return wide ? static_cast<std::uint64_t>(static_cast<std::int64_t>(a) >> shift)
                        : static_cast<std::uint32_t>(static_cast<std::int32_t>(a) >> shift);
        case BPF_NEG: return 0 - a;
        case BPF_MOV: return b;
        default: known = false; return 0;
    }
}

bool taken(std::uint8_t op, std::uint64_t a, std::uint64_t b, bool wide, bool& known) {
    if (!wide) a = static_cast<std::uint32_t>(a), b = static_cast<std::uint32_t>(b);
    auto sa = wide ? static_cast<std::int64_t>(a) : static_cast<std::int32_t>(a);
    auto sb = wide ? static_cast<std::int64_t>(b) : static_cast<std::int32_t>(b);
    switch (op) {
        case BPF_JEQ: return a == b;
        case BPF_JNE: return a != b;
        case BPF_JGT: return a > b;
        case BPF_JGE: return a >= b;
        case BPF_JLT: return a < b;
        case BPF_JLE: return a <= b;
        case BPF_JSET: return (a & b) != 0;
        case BPF_JSGT: return sa > sb;
        case BPF_JSGE: return sa >= sb;
        case BPF_JSLT: return sa < sb;
        case BPF_JSLE: return sa <= sb;
        default: known = false; return false;
    }
}

std::size_t width_of(std::uint8_t code) {
    switch (BPF_SIZE(code)) {
        case BPF_B: return 1;
        case BPF_H: return 2;
        case BPF_W: return 4;
        default: return 8;
    }
}

std::uint64_t swapped(std::uint64_t x, std::int32_t bits, bool to_big) {
    std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    return to_big ? __builtin_bswap64(x & mask) >> (64 - bits) : x & mask;
}

}  // namespace

BpfMachine::BpfMachine(const backends::BpfObject& object) : data_(object.sections) {
    std::vector<std::size_t> starts;
    std::size_t start = 0;
    for (const backends::BpfFunction& function : object.functions) {
        starts.push_back(start);
        entries_[function.name] = start;
        start += function.code.size();
    }
    for (std::size_t i = 0; i < object.functions.size(); i++) {
        add_function(object.functions[i]);
        for (const auto& [at, callee] : object.functions[i].calls) code_[starts[i] + at].wide = starts[callee];
    }
}

void BpfMachine::add_function(const backends::BpfFunction& function) {
    for (std::size_t i = 0; i < function.code.size(); i++) {
        const bpf_insn& from = function.code[i];
        Insn insn{from.code, from.dst_reg, from.src_reg, from.off, from.imm, 0};
        if (from.code == (BPF_LD | BPF_IMM | BPF_DW) && i + 1 < function.code.size()) {
            auto reference = function.references.find(i);
            insn.wide = reference != function.references.end()
                            ? address_of(reference->second)
                            : static_cast<std::uint32_t>(from.imm) | std::uint64_t(function.code[i + 1].imm) << 32;
        }
        code_.push_back(insn);
    }
}

std::uint64_t BpfMachine::address_of(const backends::DataReference& reference) {
    if (reference.section == ".maps") return reference.symbol == "cio_io_map" ? kIoMap : kBlockMap;
    return reinterpret_cast<std::uint64_t>(data_[reference.section].data()) + reference.offset;
}

// One instruction an iteration; long because it is the whole instruction set in one place.
BpfMachine::Result BpfMachine::run(const std::string& entry, std::uint8_t* io, std::uint8_t* block,
                                   std::uint64_t limit) {
    Result result;
    auto found = entries_.find(entry);
    if (found == entries_.end()) return {0, "no program " + entry};
    alignas(8) std::uint8_t stack[kFrames][kStack];
    Frame frames[kFrames];
    std::size_t depth = 0;
    std::uint64_t r[11] = {};
    r[10] = reinterpret_cast<std::uint64_t>(stack[0] + kStack);
    bool known = true;
    for (std::size_t pc = found->second; known; pc++) {
        if (result.executed++ >= limit) return {result.executed, fmt::format("more than {} instructions", limit)};
        const Insn& in = code_[pc];
        std::uint8_t kind = BPF_CLASS(in.code);
        std::uint64_t operand =
            BPF_SRC(in.code) == BPF_X ? r[in.src] : static_cast<std::uint64_t>(static_cast<std::int64_t>(in.imm));
        switch (kind) {
            case BPF_ALU64: r[in.dst] = alu(BPF_OP(in.code), r[in.dst], operand, true, known); break;
            case BPF_ALU:
                if (BPF_OP(in.code) == BPF_END) {
                    r[in.dst] = swapped(r[in.dst], in.imm, BPF_SRC(in.code) == BPF_X);
                } else {
                    r[in.dst] = static_cast<std::uint32_t>(alu(BPF_OP(in.code), r[in.dst], operand, false, known));
                }
                break;
            case BPF_LDX: {
                std::uint64_t value = 0;
                std::memcpy(&value,
                            reinterpret_cast<void*>(r[in.src] + static_cast<std::uint64_t>(std::int64_t{in.off})),
                            width_of(in.code));
                r[in.dst] = value;
                known = BPF_MODE(in.code) == BPF_MEM;
                break;
            }
            case BPF_ST:
            case BPF_STX: {
                std::uint64_t value = kind == BPF_STX ? r[in.src] : static_cast<std::uint64_t>(std::int64_t{in.imm});
                std::memcpy(reinterpret_cast<void*>(r[in.dst] + static_cast<std::uint64_t>(std::int64_t{in.off})),
                            &value, width_of(in.code));
                known = BPF_MODE(in.code) == BPF_MEM;
                break;
            }
            case BPF_LD:
                r[in.dst] = in.wide;
                known = in.code == (BPF_LD | BPF_IMM | BPF_DW);
                pc++;
                break;
            default: {
                std::uint8_t op = BPF_OP(in.code);
                if (op == BPF_JA) {
                    pc =
                        static_cast<std::size_t>(static_cast<std::int64_t>(pc) + (kind == BPF_JMP32 ? in.imm : in.off));
                } else if (op == BPF_EXIT) {
                    if (depth == 0) return result;
                    depth--;
                    std::memcpy(r + 6, frames[depth].saved, sizeof frames[depth].saved);
                    r[10] = reinterpret_cast<std::uint64_t>(stack[depth] + kStack);
                    pc = frames[depth].back;
                } else if (op == BPF_CALL && in.src == BPF_PSEUDO_CALL) {
                    if (depth + 1 >= kFrames) return {result.executed, "more than eight frames"};
                    frames[depth].back = pc;
                    std::memcpy(frames[depth].saved, r + 6, sizeof frames[depth].saved);
                    depth++;
                    r[10] = reinterpret_cast<std::uint64_t>(stack[depth] + kStack);
                    pc = in.wide - 1;
                } else if (op == BPF_CALL) {
                    known = in.imm == 1;  // bpf_map_lookup_elem
                    r[0] = reinterpret_cast<std::uint64_t>(r[1] == kIoMap ? io : block);
                } else if (taken(op, r[in.dst], operand, kind == BPF_JMP, known)) {
                    pc = static_cast<std::size_t>(static_cast<std::int64_t>(pc) + in.off);
                }
            }
        }
        if (!known) result.failure = fmt::format("unknown instruction {:#x} at {} of {}", in.code, pc, entry);
    }
    return result;
}

}  // namespace chainio::tests
