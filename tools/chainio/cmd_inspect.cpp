// `chainio inspect app.bpf.o`: what an artifact holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/backends/backends.h"
#include "compiler/diag/utf8.h"
#include "runtime/spec/loaded.h"
#include "tools/chainio/call_args.h"
#include "tools/chainio/commands.h"

namespace chainio::tool {
namespace {

std::string event_of(const ir::Module& module, const ir::Chain& chain) {
    switch (chain.mode) {
        case ir::ChainMode::call: return "";
        case ir::ChainMode::on_read: return fmt::format("on read({})", module.files[chain.source].name);
        case ir::ChainMode::on_open: return fmt::format("on open({})", module.files[chain.source].name);
        case ir::ChainMode::on_ready: return fmt::format("on ready({})", module.sockets[chain.source].name);
        case ir::ChainMode::on_probe: return fmt::format("on probe({})", module.probes[chain.source].name);
    }
    return "";
}

void print_files(const ir::Module& module) {
    for (const auto& file : module.files) {
        fmt::print("files   {} = \"{}\"", file.name, file.pattern);
        if (file.direct) fmt::print(" direct");
        if (file.immutable) fmt::print(" immutable");
        if (file.cache_levels != 0) fmt::print(" cache {} KiB levels {}", file.cache_bytes >> 10, file.cache_levels);
        if (!file.root.empty()) fmt::print(" root \"{}\"", file.root);
        if (file.header_program >= 0)
            fmt::print(" header of {} bytes: {}", file.header_bytes, fmt::join(file.header_fields, ", "));
        fmt::print("\n");
    }
}

void print_classes(const ir::Module& module) {
    for (const auto& entry : module.classes) {
        fmt::print("class   {} priority {} weight {}", entry.name, entry.priority, entry.weight);
        for (const auto& slo : entry.slos) {
            fmt::print(" slo p{} {} us (recorded, not enforced)", static_cast<double>(slo.percentile_x1000) / 1000.0,
                       static_cast<double>(slo.ns) / 1000.0);
        }
        fmt::print("\n");
    }
}

void print_chains(const spec::Loaded& spec) {
    const ir::Module& module = spec.module();
    for (const auto& chain : module.chains) {
        if (chain.mode != ir::ChainMode::call) {
            fmt::print("chain   {} {} (shadow)\n", chain.name, event_of(module, chain));
            continue;
        }
        fmt::print("chain   {} hops {}", signature(module, chain), chain.hops);
        if (chain.priority_class >= 0)
            fmt::print(" in class {}", module.classes[static_cast<std::size_t>(chain.priority_class)].name);
        fmt::print("\n        steps:");
        for (const auto& step : chain.steps) fmt::print(" {}", step.name);
        fmt::print("; {} bytes of state\n", chain.state_bytes);
    }
}

void print_rest(const spec::Loaded& spec) {
    const ir::Module& module = spec.module();
    for (const auto& service : module.services) {
        fmt::print("service {}", service.name);
        for (const auto& endpoint : service.endpoints)
            fmt::print(" {} {} via {}", endpoint.tcp ? "tcp" : "udp", endpoint.port, endpoint.via);
        fmt::print("\n");
    }
    for (const auto& socket : module.sockets)
        fmt::print("socket  {} {} {}\n", socket.name, socket.tcp ? "tcp" : "udp", socket.port);
    for (const auto& probe : module.probes) fmt::print("probe   {} = {} \"{}\"\n", probe.name, probe.kind, probe.site);
    if (!module.reasons.empty()) fmt::print("reasons {}\n", fmt::join(module.reasons, ", "));
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        fmt::print("program {} {}", i, module.programs[i].name);
        const auto& bounds = spec.artifact().bounds;
        if (i < bounds.size() && bounds[i].instructions != 0) {
            fmt::print(": at most {} BPF instructions, {} bytes of stack", bounds[i].instructions, bounds[i].stack);
        }
        fmt::print("\n");
    }
    fmt::print("memory  {} bytes a chain in flight, besides its blocks\n", spec.artifact().layout.total);
    fmt::print("native  {}\n",
               spec.native_arches().empty() ? "none" : fmt::format("{}", fmt::join(spec.native_arches(), ", ")));
    fmt::print("bpf     {} programs\n", spec.bpf_programs().size());
}

}  // namespace

void add_inspect(CLI::App& root, int& exit_code) {
    auto path = std::make_shared<std::string>();
    auto json = std::make_shared<bool>(false);
    auto* command = root.add_subcommand("inspect", "Show what an artifact holds");
    command->add_option("artifact", *path, "what chainc -o wrote")->required();
    command->add_flag("--json", *json, "the whole configuration as JSON");
    command->callback([path, json, &exit_code] {
        auto loaded = spec::Loaded::open(*path, {.use_native = false});
        if (!loaded) {
            fmt::print(stderr, "chainio inspect: {}\n", diag::escaped(loaded.error().message));
            exit_code = loaded.error().system ? kExitSystem : kExitFailed;
            return;
        }
        exit_code = kExitOk;
        if (*json) {
            fmt::print("{}\n", backends::emit_config((*loaded)->artifact()));
            return;
        }
        const ir::Module& module = (*loaded)->module();
        fmt::print("app     {}\n", module.app.empty() ? "(none)" : module.app);
        if (!module.match_exe.empty()) fmt::print("match   exe {}\n", fmt::join(module.match_exe, ", "));
        print_files(module);
        print_classes(module);
        print_chains(**loaded);
        print_rest(**loaded);
    });
}

}  // namespace chainio::tool
