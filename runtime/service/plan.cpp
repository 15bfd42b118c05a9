#include "runtime/service/plan.h"

namespace chainio::service {
namespace {

std::string refusal(const ir::Service& service, const ir::Endpoint& endpoint) {
    if (endpoint.via == "kernel") return "this version has no kernel engine; write `via uring`";
    if (!endpoint.tcp)
        return service.on_request_udp < 0 ? "the artifact has no program for it; compile the spec again" : "";
    if (service.on_request_tcp < 0) return "the artifact has no program for it; compile the spec again";
    if (service.tcp_framing.bytes == 0 && service.tcp_framing.end.empty())
        return "the length of a request over tcp depends on its fields, and this version does not follow them; end it "
               "with a "
               "text rule, or give it a fixed size";
    return {};
}

}  // namespace

std::vector<EndpointPlan> plan_of(const ir::Module& module) {
    std::vector<EndpointPlan> plan;
    for (std::uint32_t i = 0; i < module.services.size(); i++) {
        const ir::Service& service = module.services[i];
        for (std::uint32_t k = 0; k < service.endpoints.size(); k++)
            plan.push_back({i, k, refusal(service, service.endpoints[k])});
    }
    return plan;
}

std::string endpoint_text(const ir::Endpoint& endpoint) {
    return std::string(endpoint.tcp ? "tcp " : "udp ") + std::to_string(endpoint.port) + " via " + endpoint.via;
}

}  // namespace chainio::service
