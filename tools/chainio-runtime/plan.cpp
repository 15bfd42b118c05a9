#include "tools/chainio-runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/service/plan.h"
#include "tools/chainio/call_args.h"

namespace chainio::runtime_tool {
namespace {

std::string shadow_event(const ir::Module& module, const ir::Chain& chain) {
    switch (chain.mode) {
        case ir::ChainMode::on_read: return fmt::format("on read({})", module.files[chain.source].name);
        case ir::ChainMode::on_open: return fmt::format("on open({})", module.files[chain.source].name);
        case ir::ChainMode::on_ready: return fmt::format("on ready({})", module.sockets[chain.source].name);
        case ir::ChainMode::on_probe: return fmt::format("on probe({})", module.probes[chain.source].name);
        case ir::ChainMode::call: break;
    }
    return "";
}

void add_files(const ir::Module& module, std::vector<PlanRow>& rows) {
    for (const auto& file : module.files) {
        std::string why = file.direct ? "O_DIRECT" : "through the page cache";
        if (file.header_program >= 0) why += fmt::format(", header of {} bytes read at open", file.header_bytes);
        if (file.cache_levels != 0 && file.immutable) {
            why +=
                fmt::format(", blocks of the first {} hops kept in {} KiB", file.cache_levels, file.cache_bytes >> 10);
        }
        rows.push_back({"files", file.name, "runs", why});
        if (file.cache_levels != 0 && !file.immutable) {
            rows.push_back(
                {"cache", file.name, "refused", "only files that are declared immutable are kept in memory"});
        }
    }
}

void add_chains(const ir::Module& module, const std::string& engine, std::vector<PlanRow>& rows) {
    for (const auto& chain : module.chains) {
        if (chain.mode == ir::ChainMode::call) {
            rows.push_back(
                {"chain", chain.name, "runs", fmt::format("{}; {}", engine, tool::signature(module, chain))});
        } else {
            rows.push_back({"chain", chain.name, "refused",
                            fmt::format("{}: `chainio run` runs it, beside a program", shadow_event(module, chain))});
        }
    }
}

PlanRow cache_row(const ir::Service& service) {
    return {"cache", service.name, "runs",
            fmt::format("{} replies in the driver of each --interface, for {} ms", service.cache.entries,
                        static_cast<double>(service.cache.ttl_ns) / 1e6)};
}

bool could_be_inside(const ir::Module& module, const service::EndpointPlan& plan) {
    return std::ranges::any_of(service::plan_of(module, true), [&](const service::EndpointPlan& other) {
        return other.service == plan.service && other.endpoint == plan.endpoint && other.inside;
    });
}

void add_recorded(const ir::Module& module, std::vector<PlanRow>& rows) {
    for (const auto& entry : module.classes) {
        rows.push_back(
            {"class", entry.name, "runs", fmt::format("priority {}, weight {}", entry.priority, entry.weight)});
        for (const auto& slo : entry.slos) {
            rows.push_back(
                {"slo", entry.name, "recorded",
                 fmt::format("p{} {} us: recorded, not enforced", static_cast<double>(slo.percentile_x1000) / 1000.0,
                             static_cast<double>(slo.ns) / 1000.0)});
        }
    }
    const ir::Batch standard;
    if (module.batch.adapt || module.batch.min != standard.min || module.batch.max != standard.max) {
        rows.push_back({"batch", fmt::format("{} to {}", module.batch.min, module.batch.max), "recorded",
                        "the user engine submits what is ready; recorded, not enforced"});
    }
}

}  // namespace

std::vector<PlanRow> plan_of(const Edition& edition, const std::string& engine, bool tried,
                             const std::string& no_ring) {
    const ir::Module& module = edition.loaded->module();
    std::vector<PlanRow> rows;
    add_files(module, rows);
    add_chains(module, engine, rows);
    for (const service::EndpointPlan& plan : edition.plan) {
        const ir::Service& service = module.services[plan.service];
        const std::string endpoint = edition.endpoint_text(plan);
        const bool xdp = service.endpoints[plan.endpoint].via == "xdp";
        std::string why = plan.refused.empty() ? no_ring : plan.refused;
        const bool refused = !why.empty();
        if (why.empty() && xdp) why = "by AF_XDP on each --interface, else by a socket";
        if (!refused && plan.inside) why = "accept, receive, chain and send inside io_uring_enter";
        if (!refused && !plan.outside.empty()) why = "in user space: " + plan.outside;
        if (!refused && tried && could_be_inside(module, plan))
            why =
                "in user space (auto: a service is not tried inside the kernel, where it cannot be reloaded; "
                "--engine=kernel has it there, docs/kernel-engine.md what it costs)";
        rows.push_back({"service", service.name, refused ? "refused" : "runs",
                        why.empty() ? endpoint : fmt::format("{}: {}", endpoint, why)});
        if (service.cache.entries != 0 && plan.endpoint == 0) rows.push_back(cache_row(service));
    }
    for (const auto& socket : module.sockets) {
        rows.push_back({"socket", socket.name, "refused", "`chainio run` watches it, in a program"});
    }
    for (const auto& probe : module.probes) {
        rows.push_back({"probe", probe.name, "refused",
                        fmt::format("{} \"{}\": `chainio run` attaches it, beside a program", probe.kind, probe.site)});
    }
    add_recorded(module, rows);
    return rows;
}

std::string plan_text(const std::vector<PlanRow>& rows) {
    std::size_t kind = 4, name = 4;
    for (const auto& row : rows) {
        kind = std::max(kind, row.kind.size());
        name = std::max(name, row.name.size());
    }
    std::string text;
    for (const auto& row : rows)
        text += fmt::format("{:<{}}  {:<{}}  {:<8}  {}\n", row.kind, kind, row.name, name, row.state, row.why);
    return text;
}

std::string plan_json(const std::vector<PlanRow>& rows) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& row : rows)
        json.push_back({{"kind", row.kind}, {"name", row.name}, {"state", row.state}, {"why", row.why}});
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace chainio::runtime_tool
