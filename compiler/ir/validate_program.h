// The part of validate() that looks into one program.
#pragma once
#include <optional>
#include <string>

#include "compiler/ir/artifact.h"

namespace chainio::ir {

struct ProgramContext {
    const Module& module;
    const IoLayout& layout;
    const Program& program;
    const Chain* chain = nullptr;  // the chain that the program belongs to; none for header and handler programs
};
// The first violated invariant, or nothing.
std::optional<std::string> validate_program(const ProgramContext&);

bool valid_outcome(const Module&, std::uint32_t outcome);

}  // namespace chainio::ir
