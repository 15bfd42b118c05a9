#include "runtime/service/plan.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/kernel_handlers.h"

namespace chainio::service {
namespace {

std::string refusal(const ir::Service& service, const ir::Endpoint& endpoint) {
    if (!endpoint.tcp)
        return service.on_request_udp < 0 ? "the artifact has no program for it; compile the spec again" : "";
    if (service.on_request_tcp < 0) return "the artifact has no program for it; compile the spec again";
    const ir::Framing& framing = service.tcp_framing;
    if (framing.bytes == 0 && framing.length < 0 && framing.end.empty())
        return "nothing shows where a request over tcp ends; give it a fixed size, a length among its fields, or a "
               "text rule that ends it";
    return {};
}

// What the kernel takes of a spec's endpoints.
struct Kernel {
    const ir::Module& module;
    std::vector<std::uint32_t> services = ir::kernel_services(module);
    std::uint32_t places = ir::kMostKernelServices;  // that are left; an endpoint takes one

    std::string obstacle(const ir::Endpoint& endpoint, std::uint32_t service) const {
        if (!endpoint.tcp) return "datagrams are not answered inside the kernel";
        if (std::string of_all = ir::kernel_obstacle(module, service); !of_all.empty()) return of_all;
        if (std::ranges::find(services, service) == services.end())
            return "the kernel answers no more services than those before it";
        return places == 0 ? "the kernel answers no more endpoints than those before it" : "";
    }
};

void place(const ir::Endpoint& endpoint, bool wanted, Kernel& kernel, EndpointPlan& plan) {
    const bool asked = endpoint.via == "kernel";
    if (!plan.refused.empty() || (!asked && endpoint.via != "auto")) return;
    const std::string obstacle = kernel.obstacle(endpoint, plan.service);
    if (obstacle.empty()) kernel.places--;
    if (asked && !obstacle.empty())
        plan.refused = obstacle + "; write `via uring`";
    else if (asked && !wanted)
        plan.refused = "it is answered inside the kernel: start with --engine=kernel, or write `via auto`";
    else if (wanted && obstacle.empty())
        plan.inside = true;
    else if (wanted && endpoint.tcp)
        plan.outside = obstacle;
}

}  // namespace

std::uint16_t port_of(const ir::Module& module, const EndpointPlan& of, const std::vector<GivenPort>& given) {
    const auto found = std::ranges::find(given, of.service, &GivenPort::service);
    return found != given.end() ? found->port : module.services[of.service].endpoints[of.endpoint].port;
}

Plan plan_of(const ir::Module& module, bool kernel) {
    Plan plan;
    Kernel places{.module = module};
    for (std::uint32_t i = 0; i < module.services.size(); i++) {
        const ir::Service& service = module.services[i];
        for (std::uint32_t k = 0; k < service.endpoints.size(); k++) {
            plan.push_back({i, k, refusal(service, service.endpoints[k]), false, {}});
            place(service.endpoints[k], kernel, places, plan.back());
        }
    }
    return plan;
}

void place_outside(const ir::Module& module, const std::string& why, Plan& plan) {
    for (EndpointPlan& each : plan) {
        if (!std::exchange(each.inside, false)) continue;
        const bool asked = module.services[each.service].endpoints[each.endpoint].via == "kernel";
        (asked ? each.refused : each.outside) = why + (asked ? ", or write `via auto`" : "");
    }
}

// The last line of a datagram needs no end.
std::size_t shortest_request(const ir::Service& service, bool tcp) {
    return tcp ? service.tcp_framing.bytes + service.tcp_framing.end.size() : service.udp_framing.bytes;
}

std::string endpoint_text(const ir::Endpoint& endpoint) {
    return std::string(endpoint.tcp ? "tcp " : "udp ") + std::to_string(endpoint.port) + " via " + endpoint.via;
}

}  // namespace chainio::service
