// What of a call is wrong before its arguments are looked at, for who has to know it first: the C interface reads as
// many arguments as the chain takes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/engine/engine.h"

namespace chainio::engine {

inline std::optional<SubmitError> wrong_call(const ir::Module& module, std::uint32_t chain, std::size_t count) {
    if (chain >= module.chains.size() || module.chains[chain].mode != ir::ChainMode::call)
        return SubmitError{SubmitError::Kind::bad_chain, "there is no such call chain"};
    const ir::Chain& called = module.chains[chain];
    if (count == called.params.size()) return std::nullopt;
    return SubmitError{SubmitError::Kind::bad_argument, "chain '" + called.name + "' takes " +
                                                            std::to_string(called.params.size()) + " arguments, not " +
                                                            std::to_string(count)};
}

}  // namespace chainio::engine
