#include "runtime/service/plan.h"

#include <algorithm>

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

void place(const ir::Module& module, const ir::Endpoint& endpoint, bool kernel, EndpointPlan& plan) {
    const bool asked = endpoint.via == "kernel";
    if (!plan.refused.empty() || (!asked && (!kernel || endpoint.via != "auto"))) return;
    std::string obstacle = endpoint.tcp ? ir::kernel_obstacle(module, plan.service) : "";
    if (!endpoint.tcp) obstacle = "datagrams are not answered inside the kernel";
    if (obstacle.empty()) {
        const auto services = ir::kernel_services(module);
        if (std::ranges::find(services, plan.service) == services.end())
            obstacle = "the kernel answers no more services than those before it";
    }
    if (asked && !obstacle.empty())
        plan.refused = obstacle + "; write `via uring`";
    else if (asked && !kernel)
        plan.refused = "it is answered inside the kernel: start with --engine=kernel, or write `via auto`";
    else if (obstacle.empty())
        plan.inside = true;
    else if (endpoint.tcp)
        plan.outside = obstacle;
}

}  // namespace

std::vector<EndpointPlan> plan_of(const ir::Module& module, bool kernel) {
    std::vector<EndpointPlan> plan;
    for (std::uint32_t i = 0; i < module.services.size(); i++) {
        const ir::Service& service = module.services[i];
        for (std::uint32_t k = 0; k < service.endpoints.size(); k++) {
            plan.push_back({i, k, refusal(service, service.endpoints[k]), false, {}});
            place(module, service.endpoints[k], kernel, plan.back());
        }
    }
    return plan;
}

std::string endpoint_text(const ir::Endpoint& endpoint) {
    return std::string(endpoint.tcp ? "tcp " : "udp ") + std::to_string(endpoint.port) + " via " + endpoint.via;
}

}  // namespace chainio::service
