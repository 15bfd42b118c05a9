// dump(): the module as text, for --emit=ir and for tests. Stable: the same module gives the same text.
#include <fmt/format.h>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/artifact.h"
#include "compiler/ir/dump_stmt.h"
#include "compiler/ir/names.h"

namespace chainio::ir {
namespace {

std::string joined(const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
    return text;
}

void dump_app(const Module& m, std::string& out) {
    out += fmt::format("app {}\n", m.app.empty() ? "-" : m.app);
    for (const std::string& exe : m.match_exe) out += fmt::format("match exe {}\n", quoted(exe));
    for (std::size_t i = 0; i < m.files.size(); i++) {
        const FileClass& f = m.files[i];
        out += fmt::format("files {} {} = {}{}{}{}", i, f.name, quoted(f.pattern), f.direct ? " direct" : "",
                           f.immutable ? " immutable" : "", f.no_read_ahead ? " no_read_ahead" : "");
        if (!f.root.empty()) out += " root " + quoted(f.root);
        if (!f.index.empty()) out += " index " + quoted(f.index);
        if (f.cache_bytes != 0) out += fmt::format(" cache {} levels {}", f.cache_bytes, f.cache_levels);
        if (f.header_program >= 0)
            out += fmt::format(" header program {} of {} bytes [{}]", f.header_program, f.header_bytes,
                               joined(f.header_fields));
        out += '\n';
    }
    for (std::size_t i = 0; i < m.sockets.size(); i++)
        out += fmt::format("socket {} {} {} {}\n", i, m.sockets[i].name, m.sockets[i].tcp ? "tcp" : "udp",
                           m.sockets[i].port);
    for (std::size_t i = 0; i < m.classes.size(); i++) {
        const PriorityClass& c = m.classes[i];
        out += fmt::format("class {} {} priority {} weight {}", i, c.name, c.priority, c.weight);
        for (const Slo& slo : c.slos) out += fmt::format(" slo {}/100000 {}ns", slo.percentile_x1000, slo.ns);
        out += '\n';
    }
    out += fmt::format("batch min {} max {}{}\n", m.batch.min, m.batch.max, m.batch.adapt ? " adapt" : "");
    for (std::size_t i = 0; i < m.probes.size(); i++) {
        const Probe& p = m.probes[i];
        out += fmt::format("probe {} {} {} {} (", i, p.name, p.kind, quoted(p.site));
        for (std::size_t k = 0; k < p.args.size(); k++)
            out += fmt::format("{}{}: {}", k == 0 ? "" : ", ", p.args[k].name,
                               p.args[k].cstr ? fmt::format("cstr(max {})", p.args[k].max)
                                              : fmt::format("{}{}", p.args[k].is_signed ? 'i' : 'u', p.args[k].bits));
        out += ")\n";
    }
    for (std::size_t i = 0; i < m.reasons.size(); i++) out += fmt::format("reason {} {}\n", CIO_USER + i, m.reasons[i]);
    if (!m.literals.empty())
        out += "literals " + quoted({reinterpret_cast<const char*>(m.literals.data()), m.literals.size()}) + "\n";
}

std::string param_text(const Param& p) {
    switch (p.kind) {
        case Param::Kind::file: return fmt::format("{}: file {}", p.name, p.file_class);
        case Param::Kind::scalar: return fmt::format("{}: {}{} @{}", p.name, p.is_signed ? 'i' : 'u', p.bits, p.slot);
        case Param::Kind::bytes: return fmt::format("{}: bytes(max {}) @{}", p.name, p.max, p.slot);
    }
    return {};
}

void dump_chain(const Chain& c, std::size_t index, std::string& out) {
    out += fmt::format("chain {} {}(", index, c.name);
    for (std::size_t i = 0; i < c.params.size(); i++) out += (i == 0 ? "" : ", ") + param_text(c.params[i]);
    out += ")";
    if (c.mode != ChainMode::call) out += fmt::format(" on {} {}", name_of(c.mode), c.source);
    if (c.priority_class >= 0) out += fmt::format(" class {}", c.priority_class);
    switch (c.result) {
        case ResultKind::none: out += c.result_max == 0 ? "" : fmt::format(" -> emitted(max {})", c.result_max); break;
        case ResultKind::scalar: out += fmt::format(" -> {}{}", c.result_signed ? 'i' : 'u', c.result_bits); break;
        case ResultKind::slice: out += fmt::format(" -> bytes(max {})", c.result_max); break;
    }
    if (c.mode == ChainMode::call) out += fmt::format(" hops {}", c.hops);
    out += fmt::format(" slots {} state {}\n", c.arg_slots, c.state_bytes);
    for (const HeaderArg& h : c.header_args)
        out += fmt::format("  arg {} = header field {} of file {}\n", h.slot, h.field, h.file);
    if (!c.initial_state.empty())
        out += "  initial " + quoted({reinterpret_cast<const char*>(c.initial_state.data()), c.initial_state.size()}) +
               "\n";
    if (c.entry >= 0) out += fmt::format("  entry program {}\n", c.entry);
    for (std::size_t i = 0; i < c.steps.size(); i++)
        out += fmt::format("  step {} {} program {}\n", i, c.steps[i].name, c.steps[i].program);
    if (c.done >= 0) out += fmt::format("  done program {}\n", c.done);
    if (c.shadow >= 0) out += fmt::format("  shadow program {}\n", c.shadow);
}

void dump_service(const Service& s, std::string& out) {
    out += "service " + s.name;
    for (const Endpoint& e : s.endpoints) out += fmt::format(" {} {} via {}", e.tcp ? "tcp" : "udp", e.port, e.via);
    if (s.priority_class >= 0) out += fmt::format(" class {}", s.priority_class);
    if (s.cache.entries != 0) out += fmt::format(" cache {} ttl {}ns", s.cache.entries, s.cache.ttl_ns);
    out += '\n';
    if (s.on_request_udp >= 0) out += fmt::format("  on request udp program {}\n", s.on_request_udp);
    if (!s.cache.compared.empty() || !s.cache.head.empty()) {
        out += "  cache compares ";
        for (const std::uint8_t compared : s.cache.compared) out += compared != 0 ? 'x' : '.';
        out += " head";
        for (const std::uint16_t byte : s.cache.head)
            out += byte < kHeadConstant ? fmt::format(" @{}", byte) : fmt::format(" {:02x}", byte - kHeadConstant);
        out += '\n';
    }
    if (s.on_request_tcp >= 0) out += fmt::format("  on request tcp program {}\n", s.on_request_tcp);
    if (s.tcp_framing.length >= 0) out += fmt::format("  length tcp program {}\n", s.tcp_framing.length);
    if (s.on_malformed >= 0) out += fmt::format("  on malformed program {}\n", s.on_malformed);
    if (s.on_failure >= 0) out += fmt::format("  on failure program {}\n", s.on_failure);
    if (s.on_datagram >= 0) out += fmt::format("  on datagram program {}\n", s.on_datagram);
}

}  // namespace

std::string dump(const Module& m) {
    std::string out;
    dump_app(m, out);
    for (std::size_t i = 0; i < m.chains.size(); i++) dump_chain(m.chains[i], i, out);
    for (const Service& service : m.services) dump_service(service, out);
    for (std::size_t i = 0; i < m.programs.size(); i++) {
        const Program& p = m.programs[i];
        out += fmt::format("program {} {} {} {{\n", i, name_of(p.kind), p.name);
        dump_body(m, p, p.body, 1, out);
        out += "}\n";
    }
    return out;
}

}  // namespace chainio::ir
