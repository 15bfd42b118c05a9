// The files and arguments of a case, as the chain takes them.
#pragma once
#include <expected>
#include <string>

#include "runtime/spec/loaded.h"
#include "tools/chainio/testing/walk.h"
#include "tools/chainio/testing/workspace.h"

namespace chainio::testing {

// The error is for the writer of the test: which parameter is missing, unknown, or of another kind.
std::expected<std::uint32_t, std::string> find_chain(const spec::Loaded& spec, const Case& test);
std::expected<CallInput, std::string> bind_call(const ir::Module& module, std::uint32_t chain, const Case& test,
                                                Workspace& workspace);
std::expected<BoundEvent, std::string> bind_event(const ir::Chain& chain, const Case& test, Workspace& workspace);

}  // namespace chainio::testing
