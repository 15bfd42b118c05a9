// What the arithmetic operations compute: the interpreter and constant folding share it.
#pragma once
#include <cstdint>

#include "compiler/ir/ir.h"

namespace chainio::ir {

std::uint64_t evaluate(UnOp, std::uint64_t a);
std::uint64_t evaluate(BinOp, std::uint64_t a, std::uint64_t b);

}  // namespace chainio::ir
