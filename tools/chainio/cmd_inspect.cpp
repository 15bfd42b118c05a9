// `chainio inspect app.bpf.o`: what an artifact holds.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <set>
#include <string>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "compiler/backends/backends.h"
#include "compiler/diag/utf8.h"
#include "compiler/ir/visit.h"
#include "runtime/spec/loaded.h"
#include "tools/chainio/call_args.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/counted.h"
#include "tools/chainio/printed.h"

namespace chainio::tool {
namespace {

// Names and patterns are the spec's, which may hold any byte.
template <typename... Values>
void show(fmt::format_string<Values...> form, Values&&... values) {
    print_text(diag::escaped_lines(fmt::format(form, std::forward<Values>(values)...)));
}

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
        show("files   {} = \"{}\"", file.name, file.pattern);
        if (file.direct) show(" direct");
        if (file.immutable) show(" immutable");
        if (file.cache_levels != 0) show(" cache {} KiB levels {}", file.cache_bytes >> 10, file.cache_levels);
        if (!file.root.empty()) show(" root \"{}\"", file.root);
        if (!file.index.empty()) show(" index \"{}\"", file.index);
        if (file.header_program >= 0)
            show(" header of {}: {}", counted(file.header_bytes, "byte"), fmt::join(file.header_fields, ", "));
        show("\n");
    }
}

void print_classes(const ir::Module& module) {
    for (const auto& entry : module.classes) {
        show("class   {} priority {} weight {}", entry.name, entry.priority, entry.weight);
        for (const auto& slo : entry.slos) {
            show(" slo p{} {} us (recorded, not enforced)", static_cast<double>(slo.percentile_x1000) / 1000.0,
                 static_cast<double>(slo.ns) / 1000.0);
        }
        show("\n");
    }
}

void print_chains(const spec::Loaded& spec) {
    const ir::Module& module = spec.module();
    for (const auto& chain : module.chains) {
        if (chain.mode != ir::ChainMode::call) {
            show("chain   {} {} (shadow)\n", chain.name, event_of(module, chain));
            continue;
        }
        show("chain   {} hops {}", signature(module, chain), chain.hops);
        if (chain.priority_class >= 0)
            show(" in class {}", module.classes[static_cast<std::size_t>(chain.priority_class)].name);
        show("\n        steps:");
        for (const auto& step : chain.steps) show(" {}", step.name);
        show("; {} of state\n", counted(chain.state_bytes, "byte"));
    }
}

void add_words(const ir::Body& body, std::set<std::uint32_t>& words) {
    for (const ir::Stmt& stmt : body) {
        std::visit(
            [&](const auto& node) {
                if constexpr (requires { node.outcome; })
                    if (node.outcome >= CIO_USER) words.insert(node.outcome - CIO_USER);
            },
            stmt.node);
        ir::for_each_body(stmt, [&](const ir::Body& nested) { add_words(nested, words); });
    }
}

// The spec's own words that a chain may end with. Those of handlers alone, such as the one of `fail close`, are said to
// nobody.
std::vector<std::string> reasons_of_chains(const ir::Module& module) {
    std::set<std::uint32_t> words;
    for (const ir::Program& program : module.programs)
        if (program.kind != ir::ProgramKind::handler) add_words(program.body, words);
    std::vector<std::string> out;
    for (const std::uint32_t word : words) out.push_back(module.reasons.at(word));
    return out;
}

void print_rest(const spec::Loaded& spec) {
    const ir::Module& module = spec.module();
    for (const auto& service : module.services) {
        show("service {}", service.name);
        for (const auto& endpoint : service.endpoints)
            show(" {} {} via {}", endpoint.tcp ? "tcp" : "udp", endpoint.port, endpoint.via);
        if (service.priority_class >= 0)
            show(" in class {}", module.classes[static_cast<std::size_t>(service.priority_class)].name);
        if (service.cache.entries != 0)
            show(" cache {} entries ttl {} ms", service.cache.entries, static_cast<double>(service.cache.ttl_ns) / 1e6);
        show("\n");
    }
    for (const auto& socket : module.sockets)
        show("socket  {} {} {}\n", socket.name, socket.tcp ? "tcp" : "udp", socket.port);
    for (const auto& probe : module.probes) show("probe   {} = {} \"{}\"\n", probe.name, probe.kind, probe.site);
    const std::vector<std::string> reasons = reasons_of_chains(module);
    if (!reasons.empty()) show("reasons {}\n", fmt::join(reasons, ", "));
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        show("program {} {}", i, module.programs[i].name);
        const auto& bounds = spec.artifact().bounds;
        if (i < bounds.size() && bounds[i].instructions != 0) {
            show(": at most {} BPF instructions, {} bytes of stack", bounds[i].instructions, bounds[i].stack);
        }
        show("\n");
    }
    show("memory  {} bytes a chain in flight, besides its blocks\n", spec.artifact().layout.total);
    show("native  {}\n",
         spec.native_arches().empty() ? "none" : fmt::format("{}", fmt::join(spec.native_arches(), ", ")));
    show("bpf     {} programs\n", spec.bpf_programs().size());
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
            say("chainio inspect: {}\n", diag::escaped(loaded.error().message));
            exit_code = loaded.error().system ? kExitSystem : kExitFailed;
            return;
        }
        exit_code = kExitOk;
        if (*json) {
            print_out("{}\n", backends::emit_config((*loaded)->artifact()));
            return;
        }
        const ir::Module& module = (*loaded)->module();
        show("app     {}\n", module.app.empty() ? "(none)" : module.app);
        if (!module.match_exe.empty()) show("match   exe {}\n", fmt::join(module.match_exe, ", "));
        print_files(module);
        print_classes(module);
        print_chains(**loaded);
        print_rest(**loaded);
    });
}

}  // namespace chainio::tool
