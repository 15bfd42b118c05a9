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
};

std::vector<EndpointPlan> plan_of(const ir::Module& module);
// "tcp 11211 via uring"
std::string endpoint_text(const ir::Endpoint& endpoint);

}  // namespace chainio::service
