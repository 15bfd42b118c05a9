// --emit=config: what .chainio.spec says, for people and scripts. The programs' code is in --emit=ir.
#include <nlohmann/json.hpp>

#include "compiler/backends/backends.h"
#include "compiler/ir/names.h"

namespace chainio::backends {
namespace {

using Json = nlohmann::ordered_json;

Json index_name(std::int32_t index, const auto& table) {
    if (index < 0 || static_cast<std::size_t>(index) >= table.size()) return nullptr;
    return table[static_cast<std::size_t>(index)].name;
}

std::string_view word(ir::Param::Kind kind) {
    switch (kind) {
        case ir::Param::Kind::file: return "file";
        case ir::Param::Kind::scalar: return "scalar";
        case ir::Param::Kind::bytes: return "bytes";
    }
    return "scalar";
}

std::string_view word(ir::ResultKind kind) {
    switch (kind) {
        case ir::ResultKind::none: return "emitted";
        case ir::ResultKind::scalar: return "scalar";
        case ir::ResultKind::slice: return "bytes";
    }
    return "emitted";
}

Json file_class(const ir::Module& module, const ir::FileClass& files) {
    Json out = {
        {"name", files.name}, {"pattern", files.pattern}, {"direct", files.direct}, {"immutable", files.immutable}};
    if (files.no_read_ahead) out["no_read_ahead"] = true;
    if (!files.root.empty()) out["root"] = files.root;
    if (!files.index.empty()) out["index"] = files.index;
    if (files.cache_bytes != 0) out["cache"] = {{"bytes", files.cache_bytes}, {"levels", files.cache_levels}};
    if (files.header_program >= 0)
        out["header"] = {{"program", index_name(files.header_program, module.programs)},
                         {"bytes", files.header_bytes},
                         {"fields", files.header_fields}};
    return out;
}

Json param(const ir::Module& module, const ir::Param& p) {
    Json out = {{"name", p.name}, {"kind", word(p.kind)}, {"slot", p.slot}};
    if (p.kind == ir::Param::Kind::file) out["class"] = index_name(p.file_class, module.files);
    if (p.kind == ir::Param::Kind::scalar) out.update({{"bits", p.bits}, {"signed", p.is_signed}});
    if (p.kind == ir::Param::Kind::bytes) out["max"] = p.max;
    return out;
}

Json source(const ir::Module& module, const ir::Chain& chain) {
    switch (chain.mode) {
        case ir::ChainMode::call: return nullptr;
        case ir::ChainMode::on_read:
        case ir::ChainMode::on_open: return index_name(chain.source, module.files);
        case ir::ChainMode::on_ready: return index_name(chain.source, module.sockets);
        case ir::ChainMode::on_probe: return index_name(chain.source, module.probes);
    }
    return nullptr;
}

Json chain_json(const ir::Module& module, const ir::Chain& chain) {
    Json out = {{"name", chain.name}, {"mode", ir::name_of(chain.mode)}};
    if (chain.mode != ir::ChainMode::call) out["source"] = source(module, chain);
    if (chain.priority_class >= 0) out["class"] = index_name(chain.priority_class, module.classes);
    out["params"] = Json::array();
    for (const ir::Param& p : chain.params) out["params"].push_back(param(module, p));
    out["header_args"] = Json::array();
    for (const ir::HeaderArg& h : chain.header_args) {
        const Json field = h.field == ir::kFileSizeField    ? Json("file size")
                           : h.field == ir::kReadAheadField ? Json("read-ahead")
                           : h.field == ir::kMarkField      ? Json("mark")
                           : h.field == ir::kLastMarkField  ? Json("last mark")
                                                            : Json(h.field);
        out["header_args"].push_back({{"slot", h.slot}, {"file", h.file}, {"field", field}});
    }
    out["arg_slots"] = chain.arg_slots;
    out["result"] = {{"kind", word(chain.result)},
                     {"bits", chain.result_bits},
                     {"signed", chain.result_signed},
                     {"max", chain.result_max}};
    out["hops"] = chain.hops;
    out["state_bytes"] = chain.state_bytes;
    out["entry"] = index_name(chain.entry, module.programs);
    out["shadow"] = index_name(chain.shadow, module.programs);
    out["done"] = index_name(chain.done, module.programs);
    out["steps"] = Json::array();
    for (const ir::Step& step : chain.steps)
        out["steps"].push_back({{"name", step.name}, {"program", index_name(step.program, module.programs)}});
    return out;
}

Json service_json(const ir::Module& module, const ir::Service& service) {
    Json out = {{"name", service.name}, {"endpoints", Json::array()}};
    for (const ir::Endpoint& e : service.endpoints)
        out["endpoints"].push_back({{"protocol", e.tcp ? "tcp" : "udp"}, {"port", e.port}, {"via", e.via}});
    if (service.priority_class >= 0) out["class"] = index_name(service.priority_class, module.classes);
    if (service.cache.entries != 0)
        out["cache"] = {{"entries", service.cache.entries},
                        {"ttl_ns", service.cache.ttl_ns},
                        {"compared", service.cache.compared},
                        {"head", service.cache.head}};
    out["on_request_udp"] = index_name(service.on_request_udp, module.programs);
    out["on_request_tcp"] = index_name(service.on_request_tcp, module.programs);
    out["on_malformed"] = index_name(service.on_malformed, module.programs);
    out["on_failure"] = index_name(service.on_failure, module.programs);
    if (service.on_datagram >= 0) out["on_datagram"] = index_name(service.on_datagram, module.programs);
    if (service.on_request_udp >= 0)
        out["udp_framing"] = {{"bytes", service.udp_framing.bytes}, {"end", service.udp_framing.end}};
    if (service.on_request_tcp >= 0)
        out["tcp_framing"] = {{"bytes", service.tcp_framing.bytes}, {"end", service.tcp_framing.end}};
    if (service.tcp_framing.length >= 0)
        out["tcp_framing"]["length"] = index_name(service.tcp_framing.length, module.programs);
    return out;
}

Json probe_json(const ir::Probe& probe) {
    Json out = {{"name", probe.name}, {"kind", probe.kind}, {"site", probe.site}, {"args", Json::array()}};
    for (const ir::ProbeArg& arg : probe.args)
        out["args"].push_back(
            {{"name", arg.name}, {"bits", arg.bits}, {"signed", arg.is_signed}, {"cstr", arg.cstr}, {"max", arg.max}});
    return out;
}

Json layout_json(const ir::IoLayout& io) {
    return {{"state", {{"offset", io.state_offset}, {"size", io.state_size}}},
            {"arg_bytes", {{"offset", io.arg_bytes_offset}, {"size", io.arg_bytes_size}}},
            {"out", {{"offset", io.out_offset}, {"size", io.out_size}}},
            {"prefetch", {{"offset", io.prefetch_offset}, {"count", io.prefetch_count}}},
            {"total", io.total}};
}

Json class_json(const ir::PriorityClass& c) {
    Json out = {{"name", c.name}, {"priority", c.priority}, {"weight", c.weight}, {"slo", Json::array()}};
    for (const ir::Slo& slo : c.slos)
        out["slo"].push_back({{"percentile", slo.percentile_x1000 / 1000.0}, {"ns", slo.ns}});
    return out;
}

}  // namespace

std::string emit_config(const ir::Artifact& artifact) {
    const ir::Module& module = artifact.module;
    Json out = {{"app", module.app}, {"match_exe", module.match_exe}};
    auto list = [&](const char* name, const auto& rows, auto&& row) {
        out[name] = Json::array();
        for (const auto& r : rows) out[name].push_back(row(r));
    };
    list("files", module.files, [&](const ir::FileClass& f) { return file_class(module, f); });
    list("sockets", module.sockets, [](const ir::Socket& s) {
        return Json{{"name", s.name}, {"protocol", s.tcp ? "tcp" : "udp"}, {"port", s.port}};
    });
    list("classes", module.classes, class_json);
    out["batch"] = {{"min", module.batch.min}, {"max", module.batch.max}, {"adapt", module.batch.adapt}};
    list("chains", module.chains, [&](const ir::Chain& c) { return chain_json(module, c); });
    list("services", module.services, [&](const ir::Service& s) { return service_json(module, s); });
    list("probes", module.probes, probe_json);
    out["programs"] = Json::array();
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        const ir::Program& program = module.programs[i];
        Json row = {{"name", program.name}, {"kind", ir::name_of(program.kind)}};
        if (i < artifact.bounds.size())
            row.update({{"instructions", artifact.bounds[i].instructions}, {"stack", artifact.bounds[i].stack}});
        out["programs"].push_back(std::move(row));
    }
    out["layout"] = layout_json(artifact.layout);
    out["reasons"] = module.reasons;
    out["literal_bytes"] = module.literals.size();
    out["sources"] = module.sources;
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace chainio::backends
