// The graph of an app: file classes, chains, their steps and the reads between them.
#include <fmt/format.h>

#include <set>

#include "compiler/backends/backends.h"
#include "compiler/ir/names.h"
#include "compiler/ir/visit.h"

namespace chainio::backends {
namespace {

std::string dot_string(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return out + '"';
}

template <class F>
void each_stmt(const ir::Body& body, F&& f) {
    for (const ir::Stmt& stmt : body) {
        f(stmt);
        ir::for_each_body(stmt, [&](const ir::Body& nested) { each_stmt(nested, f); });
    }
}

class Graph {
  public:
    explicit Graph(const ir::Module& module) : module_(module) {}

    std::string text() {
        for (std::size_t i = 0; i < module_.files.size(); i++) {
            const ir::FileClass& files = module_.files[i];
            out_ +=
                fmt::format("  file{} [shape=cylinder, label={}];\n", i, dot_string(files.name + "\n" + files.pattern));
        }
        for (std::size_t i = 0; i < module_.chains.size(); i++) chain(i);
        for (std::size_t i = 0; i < module_.services.size(); i++) service(i);
        return fmt::format("digraph {} {{\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n{}}}\n",
                           dot_string(module_.app.empty() ? "chainio" : module_.app), out_);
    }

  private:
    void edge(const std::string& from, const std::string& to, std::string_view label, std::string_view style = "") {
        std::string attributes = label.empty() ? "" : "label=" + dot_string(label);
        if (!style.empty()) attributes += fmt::format("{}style={}", attributes.empty() ? "" : ", ", style);
        std::string line = fmt::format("  {} -> {}{};\n", from, to, attributes.empty() ? "" : " [" + attributes + "]");
        if (edges_.insert(line).second) out_ += line;
    }

    const ir::Program* program(std::int32_t index) const {
        return index < 0 || static_cast<std::size_t>(index) >= module_.programs.size()
                   ? nullptr
                   : &module_.programs[static_cast<std::size_t>(index)];
    }

    void chain(std::size_t index) {
        const ir::Chain& chain = module_.chains[index];
        std::string id = fmt::format("chain{}", index);
        out_ +=
            fmt::format("  subgraph cluster_{} {{\n    label={};\n", id,
                        dot_string(fmt::format("{} ({}, hops {})", chain.name, ir::name_of(chain.mode), chain.hops)));
        out_ += fmt::format("    {} [shape=oval, label={}];\n", id, dot_string(chain.shadow >= 0 ? "event" : "call"));
        for (std::size_t i = 0; i < chain.steps.size(); i++)
            out_ += fmt::format("    {}_step{} [label={}];\n", id, i, dot_string(chain.steps[i].name));
        if (chain.done >= 0) out_ += fmt::format("    {}_done [label=\"done\"];\n", id);
        out_ += "  }\n";
        for (std::int32_t entry : {chain.entry, chain.shadow})
            if (const ir::Program* p = program(entry)) flow(chain, id, id, *p);
        for (std::size_t i = 0; i < chain.steps.size(); i++)
            if (const ir::Program* p = program(chain.steps[i].program))
                flow(chain, id, fmt::format("{}_step{}", id, i), *p);
        if (const ir::Program* p = program(chain.done)) flow(chain, id, id + "_done", *p);
        bool reads_files = chain.mode == ir::ChainMode::on_read || chain.mode == ir::ChainMode::on_open;
        if (reads_files && chain.source < module_.files.size())
            edge(fmt::format("file{}", chain.source), id, ir::name_of(chain.mode));
    }

    // What one program may do next.
    void flow(const ir::Chain& chain, const std::string& id, const std::string& from, const ir::Program& program) {
        each_stmt(program.body, [&](const ir::Stmt& stmt) {
            if (auto* next = std::get_if<ir::Next>(&stmt.node)) {
                edge(from, fmt::format("{}_step{}", id, next->step), file_name(chain, next->file));
            } else if (auto* fetch = std::get_if<ir::Prefetch>(&stmt.node)) {
                prefetch(from, *fetch);
            }
        });
    }

    void prefetch(const std::string& from, const ir::Prefetch& fetch) {
        if (fetch.kind == ir::PrefetchKind::mark) return;
        if (fetch.kind == ir::PrefetchKind::mark_via)
            return edge(from, fmt::format("chain{}", fetch.target), "mark via", "dashed");
        if (fetch.kind == ir::PrefetchKind::chain)
            return edge(from, fmt::format("chain{}", fetch.target), "prefetch via", "dashed");
        if (fetch.kind == ir::PrefetchKind::same || fetch.target >= module_.files.size())
            return edge(from, from, "prefetch", "dashed");
        edge(from, fmt::format("file{}", fetch.target), "prefetch", "dashed");
    }

    void service(std::size_t index) {
        const ir::Service& service = module_.services[index];
        std::string id = fmt::format("service{}", index), label = service.name;
        for (const ir::Endpoint& e : service.endpoints)
            label += fmt::format("\n{} {} via {}", e.tcp ? "tcp" : "udp", e.port, e.via);
        out_ += fmt::format("  {} [shape=house, label={}];\n", id, dot_string(label));
        for (std::int32_t handler :
             {service.on_request_udp, service.on_request_tcp, service.on_malformed, service.on_failure}) {
            const ir::Program* p = program(handler);
            if (p == nullptr) continue;
            each_stmt(p->body, [&](const ir::Stmt& stmt) {
                if (auto* call = std::get_if<ir::CallChain>(&stmt.node))
                    edge(id, fmt::format("chain{}", call->chain), "calls");
            });
        }
    }

    // The chain's file parameter of that number.
    static std::string file_name(const ir::Chain& chain, std::uint16_t number) {
        for (const ir::Param& param : chain.params)
            if (param.kind == ir::Param::Kind::file && param.slot == number) return param.name;
        return "";
    }

    const ir::Module& module_;
    std::string out_;
    std::set<std::string> edges_;
};

}  // namespace

std::string emit_dot(const ir::Module& module) { return Graph(module).text(); }

}  // namespace chainio::backends
