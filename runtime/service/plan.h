// Which endpoints of a spec's services this runtime serves, and why it does not serve the others.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::service {

struct EndpointPlan {
    std::uint32_t service = 0, endpoint = 0;  // of the module, of the service
    std::string refused;                      // empty: it is served
    bool inside = false;                      // by the kernel engine's loop
    std::string outside;                      // why not, though the kernel engine was asked for
};

// With `kernel` the kernel engine answers what it can: `via kernel` and `via auto` over tcp.
std::vector<EndpointPlan> plan_of(const ir::Module& module, bool kernel = false);
// "tcp 11211 via uring"
std::string endpoint_text(const ir::Endpoint& endpoint);

}  // namespace chainio::service
