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

    bool in_user_space() const { return refused.empty() && !inside; }
};
using Plan = std::vector<EndpointPlan>;  // of all endpoints

// A port that was given when the runtime was started; 0: any that is free.
struct GivenPort {
    std::uint32_t service = 0;
    std::uint16_t port = 0;
};
// Where an endpoint listens: at what was given for its service, else at what the spec says.
std::uint16_t port_of(const ir::Module& module, const EndpointPlan& of, const std::vector<GivenPort>& given);

// With `kernel` the kernel engine answers what it can: `via kernel` and `via auto` over tcp.
Plan plan_of(const ir::Module& module, bool kernel = false);
// The kernel takes none of them after all: what wants to be there is refused, and the others are answered in user
// space.
void place_outside(const ir::Module& module, const std::string& why, Plan& plan);
// The bytes that a request has at least, as far as that can be told without any.
std::size_t shortest_request(const ir::Service& service, bool tcp);
// "tcp 11211 via uring"
std::string endpoint_text(const ir::Endpoint& endpoint);

}  // namespace chainio::service
