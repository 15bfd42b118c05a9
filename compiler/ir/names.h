// The words for the IR's enums: dumps, diagnostics, the graph and the configuration use the same ones.
#pragma once
#include <string>
#include <string_view>

#include "compiler/ir/ir.h"

namespace chainio::ir {

std::string_view name_of(Space);
std::string_view name_of(UnOp);
std::string_view name_of(BinOp);
std::string_view name_of(VarintKind);
std::string_view name_of(HashAlgo);
std::string_view name_of(Input);
std::string_view name_of(PrefetchKind);
std::string_view name_of(Format);
std::string_view name_of(ProgramKind);
std::string_view name_of(ChainMode);

// `malformed`, `not_found` …, or the module's own word from CIO_USER on; "outcome 99" for a number that has no name.
std::string outcome_name(const Module&, std::uint32_t outcome);

}  // namespace chainio::ir
