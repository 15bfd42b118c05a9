// Whether a module keeps the invariants of ir.h. The runtime trusts a module after this and nothing before.
#include <fmt/format.h>
#include <algorithm>

#include "bpf-templates/chainio_probe.h"
#include "bpf-templates/chainio_step.h"
#include "compiler/ir/artifact.h"
#include "compiler/ir/patterns.h"
#include "compiler/ir/validate_program.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

using Problem = std::optional<std::string>;

// Which chain each program belongs to; every program has exactly one role.
class Roles {
  public:
    explicit Roles(const Module& module)
        : module_(module), chain_(module.programs.size(), nullptr), taken_(module.programs.size(), false) {}

    Problem take(std::int64_t index, ProgramKind kind, const Chain* chain) {
        if (index < 0 || index >= static_cast<std::int64_t>(taken_.size())) return "a program that does not exist";
        auto i = static_cast<std::size_t>(index);
        if (taken_[i]) return "program " + std::to_string(i) + " has two roles";
        if (module_.programs[i].kind != kind)
            return "program " + std::to_string(i) + " is of another kind than its role";
        taken_[i] = true;
        chain_[i] = chain;
        return {};
    }
    const Chain* chain(std::size_t program) const { return chain_[program]; }
    bool taken(std::size_t program) const { return taken_[program]; }

  private:
    const Module& module_;
    std::vector<const Chain*> chain_;
    std::vector<bool> taken_;
};

Problem check_params(const Module& module, const Chain& chain) {
    std::uint64_t bytes = 0;
    std::uint16_t files = 0;
    for (const Param& p : chain.params) {
        switch (p.kind) {
            case Param::Kind::file:
                if (p.slot != files++) return "file parameters out of order";
                if (p.file_class >= module.files.size()) return "a parameter of an unknown file class";
                break;
            case Param::Kind::scalar:
                if (p.slot >= chain.arg_slots || p.bits < 1 || p.bits > 64) return "a scalar parameter out of range";
                break;
            case Param::Kind::bytes:
                if (p.slot + 1 >= chain.arg_slots) return "a bytes parameter out of range";
                bytes += p.max;
                break;
        }
    }
    if (bytes > CIO_MAX_ARG_BYTES) return fmt::format("more than {} bytes of arguments", CIO_MAX_ARG_BYTES);
    for (const HeaderArg& h : chain.header_args) {
        if (h.slot >= chain.arg_slots || h.file >= files) return "a header field out of range";
        auto file = std::ranges::find_if(
            chain.params, [&](const Param& p) { return p.kind == Param::Kind::file && p.slot == h.file; });
        const bool has_event = chain.mode == ChainMode::on_read || chain.mode == ChainMode::on_open;
        if (h.field == kFileSizeField || (h.field >= kLastMarkField && has_event)) continue;
        if (h.field >= module.files[file->file_class].header_fields.size())
            return "a header field that its file does not have";
    }
    return {};
}

Problem check_chain(const Module& module, const Chain& chain, Roles& roles) {
    if (chain.arg_slots > CIO_MAX_ARGS) return fmt::format("more than {} argument slots", CIO_MAX_ARGS);
    if (chain.state_bytes > CIO_MAX_STATE) return fmt::format("more than {} bytes of state", CIO_MAX_STATE);
    if (!chain.initial_state.empty() && chain.initial_state.size() != chain.state_bytes)
        return "an initial state of another size";
    if (chain.result_max > CIO_MAX_OUT || chain.result_bits < 1 || chain.result_bits > 64)
        return "a result out of range";
    if (chain.priority_class >= static_cast<std::int64_t>(module.classes.size())) return "an unknown priority class";
    if (auto problem = check_params(module, chain)) return problem;
    if (chain.mode == ChainMode::call) {
        if (chain.hops == 0 || chain.hops > 1'000'000) return "a hop limit outside of 1..1000000";
        if (chain.shadow >= 0 || chain.entry < 0 || chain.steps.empty()) return "a call chain without its programs";
        if (auto problem = roles.take(chain.entry, ProgramKind::entry, &chain)) return problem;
    } else {
        std::size_t sources = chain.mode == ChainMode::on_ready   ? module.sockets.size()
                              : chain.mode == ChainMode::on_probe ? module.probes.size()
                                                                  : module.files.size();
        if (chain.source >= sources) return "an unknown event source";
        if (chain.entry >= 0 || chain.done >= 0 || !chain.steps.empty()) return "a shadow chain with steps";
        if (auto problem = roles.take(chain.shadow, ProgramKind::shadow, &chain)) return problem;
    }
    if (chain.done >= 0)
        if (auto problem = roles.take(chain.done, ProgramKind::done, &chain)) return problem;
    for (const Step& step : chain.steps)
        if (auto problem = roles.take(step.program, ProgramKind::step, &chain)) return problem;
    return {};
}

Problem check_files(const Module& module, Roles& roles) {
    for (const FileClass& file : module.files) {
        // A program's own thread puts it behind a path that it has looked at.
        if (!file.index.empty() && why_no_file_name(file.index) != nullptr)
            return "file class " + file.name + ": an index that is no file's name";
        if (file.header_program < 0) {
            if (!file.header_fields.empty()) return "file class " + file.name + ": header fields without a header";
            continue;
        }
        if (file.header_bytes == 0 || file.header_bytes > CIO_MAX_BLOCK)
            return "file class " + file.name + ": a header size out of range";
        if (file.header_fields.size() > CIO_MAX_OUT / 8) return "file class " + file.name + ": too many header fields";
        if (auto problem = roles.take(file.header_program, ProgramKind::header, nullptr))
            return "file class " + file.name + ": " + *problem;
    }
    return {};
}

// What the runtime takes out of a reply of a length program.
bool replies_a_length(const Body& body) {
    return std::ranges::all_of(body, [](const Stmt& stmt) {
        const auto* reply = std::get_if<Reply>(&stmt.node);
        bool fits = reply == nullptr || (reply->parts.size() == 1 && reply->parts[0].format == Format::u64le);
        for_each_body(stmt, [&](const Body& nested) { fits = fits && replies_a_length(nested); });
        return fits;
    });
}

Problem check_services(const Module& module, Roles& roles) {
    for (const Service& service : module.services) {
        if (service.priority_class >= static_cast<std::int64_t>(module.classes.size()))
            return "service " + service.name + ": an unknown class";
        const auto unknown = [](std::uint16_t b) {
            return b >= kKeptFixed && (b < kHeadConstant || b > kHeadConstant + 0xff);
        };
        if (service.cache.compared.size() > kKeptFixed || service.cache.head.size() > kMostKeptHead ||
            std::ranges::any_of(service.cache.head, unknown))
            return "service " + service.name + ": a cache out of range";
        if (service.udp_framing.length >= 0) return "service " + service.name + ": datagrams whose length is computed";
        for (std::int32_t handler : {service.on_request_udp, service.on_request_tcp, service.on_malformed,
                                     service.on_failure, service.on_datagram, service.tcp_framing.length}) {
            if (handler < 0) continue;
            if (auto problem = roles.take(handler, ProgramKind::handler, nullptr))
                return "service " + service.name + ": " + *problem;
        }
        if (const std::int32_t length = service.tcp_framing.length; length >= 0)
            if (!replies_a_length(module.programs[static_cast<std::size_t>(length)].body))
                return "service " + service.name + ": a program for lengths that replies something else";
    }
    for (const PriorityClass& cls : module.classes)
        for (const Slo& slo : cls.slos)
            if (slo.percentile_x1000 == 0 || slo.percentile_x1000 > 100'000)
                return "class " + cls.name + ": a percentile out of range";
    if (module.probes.size() > CIO_MAX_PROBES) return fmt::format("more than {} probes", CIO_MAX_PROBES);
    for (const Probe& probe : module.probes) {
        if (probe.args.size() > (probe.kind == "syscall" ? CIO_SYSCALL_ARGS : CIO_PROBE_ARGS))
            return "probe " + probe.name + ": too many arguments";
        for (const ProbeArg& arg : probe.args)
            if (arg.bits < 1 || arg.bits > 64 || (arg.cstr ? arg.max < 1 || arg.max > CIO_MAX_ARG_BYTES : arg.max != 0))
                return "probe " + probe.name + ": an argument out of range";
    }
    if (module.batch.min == 0 || module.batch.min > module.batch.max) return "a batch size out of range";
    return {};
}

}  // namespace

std::string validate(const Module& module, Programs programs) {
    if (module.programs.size() > kMaxPrograms) return fmt::format("more than {} programs", kMaxPrograms);
    if (module.literals.size() > kMaxLiterals) return "more than 1 MiB of literals";
    Roles roles(module);
    for (const Chain& chain : module.chains)
        if (auto problem = check_chain(module, chain, roles)) return "chain " + chain.name + ": " + *problem;
    if (auto problem = check_files(module, roles)) return *problem;
    if (auto problem = check_services(module, roles)) return *problem;
    IoLayout layout = layout_of(module);
    for (std::size_t i = 0; i < module.programs.size(); i++) {
        const Program& program = module.programs[i];
        std::string name = fmt::format("program {} ({}): ", i, program.name);
        if (!roles.taken(i)) return name + "nothing uses it";
        if (programs == Programs::proven) continue;
        if (auto problem = validate_program({module, layout, program, roles.chain(i)})) return name + *problem;
    }
    return {};
}

}  // namespace chainio::ir
