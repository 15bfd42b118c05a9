// How large things of the IR are.
#pragma once
#include <cstdint>

#include "compiler/ir/ir.h"

namespace chainio::ir {

// In what the IR bounds: kMaxStmts, kMaxRegs, kMaxVars, kMaxDepth.
struct ProgramSize {
    std::uint64_t statements = 0;
    std::uint32_t registers = 0;
    std::uint32_t variables = 0;  // registers that more than one statement writes
    std::uint32_t depth = 0;      // of nested bodies
};
ProgramSize size_of(const Program&);

// The bytes of a number in this format; 0: it has no width of its own (digits), or is no number (bytes).
std::uint32_t width_of(Format);

}  // namespace chainio::ir
