#include "runtime/sites/code.h"

#include <Zydis/Zydis.h>

namespace chainio::sites {
namespace {

bool leaves(const ZydisDecodedInstruction& instruction) {
    switch (instruction.meta.category) {
        case ZYDIS_CATEGORY_CALL:
        case ZYDIS_CATEGORY_COND_BR:
        case ZYDIS_CATEGORY_UNCOND_BR:
        case ZYDIS_CATEGORY_RET:
        case ZYDIS_CATEGORY_INTERRUPT:
        case ZYDIS_CATEGORY_SYSCALL:
        case ZYDIS_CATEGORY_SYSRET:
        case ZYDIS_CATEGORY_SYSTEM: return true;
        default: return instruction.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE;
    }
}

Instruction described(const ZydisDecodedInstruction& from, std::uint64_t address, std::span<const std::uint8_t> bytes) {
    Instruction out{.address = address, .bytes = bytes};
    const bool relative = (from.attributes & ZYDIS_ATTRIB_IS_RELATIVE) != 0;
    out.is_call = from.mnemonic == ZYDIS_MNEMONIC_SYSCALL;
    out.movable = !relative && !leaves(from);
    out.returns = from.mnemonic == ZYDIS_MNEMONIC_RET;
    if (relative && leaves(from) && from.raw.imm[0].is_relative)
        out.target = out.end() + static_cast<std::uint64_t>(from.raw.imm[0].value.s);
    else
        out.jumps_by_table = from.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
    return out;
}

}  // namespace

std::optional<std::vector<Instruction>> instructions_of(std::uint64_t address, std::span<const std::uint8_t> code) {
    ZydisDecoder decoder;
    if (ZYAN_FAILED(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64))) return std::nullopt;
    std::vector<Instruction> out;
    std::size_t at = 0;
    while (at < code.size()) {
        ZydisDecodedInstruction found;
        if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&decoder, nullptr, code.data() + at, code.size() - at, &found)))
            return std::nullopt;
        out.push_back(described(found, address + at, code.subspan(at, found.length)));
        at += found.length;
    }
    return out;
}

}  // namespace chainio::sites
