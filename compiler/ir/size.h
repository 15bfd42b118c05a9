// How large a program is, in what the IR bounds (kMaxRegs, kMaxVars, kMaxDepth, kMaxStmts).
#pragma once
#include <cstdint>

#include "compiler/ir/ir.h"

namespace chainio::ir {

struct ProgramSize {
    std::uint64_t statements = 0;
    std::uint32_t registers = 0;
    std::uint32_t variables = 0;  // registers that more than one statement writes
    std::uint32_t depth = 0;      // of nested bodies
};
ProgramSize size_of(const Program&);

}  // namespace chainio::ir
