// The whole module: tables, chains, header programs, services.
#include <algorithm>

#include "bpf-templates/chainio_step.h"
#include "compiler/passes/begun_replies.h"
#include "compiler/passes/exact_length.h"
#include "compiler/passes/lower.h"
#include "compiler/passes/lower_program.h"

namespace chainio::passes {

namespace {

std::uint16_t add_program(ModuleContext& m, ir::Program program) {
    m.out.programs.push_back(std::move(program));
    return static_cast<std::uint16_t>(m.out.programs.size() - 1);
}

void lower_file_class(ModuleContext& m, const checked::FileClass& file) {
    ir::FileClass out = file.info;
    if (file.header_record >= 0) {
        const checked::Record& record = m.checked.records[static_cast<std::size_t>(file.header_record)];
        ProgramLowering lowering(m, nullptr, "header." + out.name, ir::ProgramKind::header);
        lowering.header(record);
        out.header_program = add_program(m, lowering.finish());
        // Derived fields alone want no bytes, and a read has one at least.
        out.header_bytes = static_cast<std::uint32_t>(std::max<std::int64_t>(record.fixed_size, 1));
        for (const checked::Field& f : record.fields)
            if (is_header_field(f)) out.header_fields.push_back(f.name);
    }
    m.out.files.push_back(std::move(out));
}

// The name of a program that is no step: one that is called so keeps its name for itself.
std::string name_of_program(const checked::Chain& chain, std::string name) {
    while (std::ranges::find(chain.steps, name, &checked::Step::name) != chain.steps.end()) name += '_';
    return chain.name + "." + name;
}

// `return` with a value compares its length itself (Checker::return_bytes).
void compare_emitted_lengths(ModuleContext& m, const checked::Chain& chain, ir::Chain& out) {
    if (!chain.emits || !chain.exact) return;
    std::vector<ir::Program*> steps;
    for (const ir::Step& step : out.steps) steps.push_back(&m.out.programs[step.program]);
    ir::Program* done = out.done >= 0 ? &m.out.programs[static_cast<std::size_t>(out.done)] : nullptr;
    if (compare_emitted(steps, done, chain.returns.max))
        out.done = add_program(m, comparing_done(name_of_program(chain, "done"), chain.line, chain.returns.max));
}

void lower_chain(ModuleContext& m, const checked::Chain& chain) {
    ChainContext context(m, chain);
    if (chain.mode == ir::ChainMode::call) {
        ProgramLowering entry(m, &context, name_of_program(chain, "entry"), ir::ProgramKind::entry);
        entry.entry(chain.steps.front());
        context.out.entry = add_program(m, entry.finish());
        for (const checked::Step& step : chain.steps) {
            ProgramLowering lowering(m, &context, chain.name + "." + step.name, ir::ProgramKind::step);
            lowering.step(step);
            context.out.steps.push_back({step.name, add_program(m, lowering.finish())});
        }
    } else {
        ProgramLowering shadow(m, &context, chain.name, ir::ProgramKind::shadow);
        shadow.set_line(chain.line);
        shadow.body(chain.shadow);
        context.out.shadow = add_program(m, shadow.finish());
    }
    if (chain.done) {
        ProgramLowering done(m, &context, name_of_program(chain, "done"), ir::ProgramKind::done);
        done.body(*chain.done);
        context.out.done = add_program(m, done.finish());
    }
    compare_emitted_lengths(m, chain, context.out);
    if (!context.out.initial_state.empty()) context.out.initial_state.resize(context.out.state_bytes);
    m.out.chains.push_back(std::move(context.out));
}

std::int32_t lower_handler(ModuleContext& m, const std::string& name, const std::optional<checked::Handler>& handler,
                           bool whole = true) {
    if (!handler) return -1;
    ProgramLowering lowering(m, nullptr, name, ir::ProgramKind::handler);
    lowering.handler(*handler, whole);
    ir::Program program = lowering.finish();
    close_begun_replies(program);
    return add_program(m, std::move(program));
}

std::int32_t lower_length(ModuleContext& m, const checked::Service& service) {
    if (!service.measured) return -1;
    ProgramLowering lowering(m, nullptr, service.name + ".length", ir::ProgramKind::handler);
    lowering.request_length(*service.tcp);
    return add_program(m, lowering.finish());
}

void lower_service(ModuleContext& m, const checked::Service& service) {
    ir::Service out = service.info;
    out.on_request_udp = lower_handler(m, service.name + ".udp", service.udp);
    out.on_request_tcp = lower_handler(m, service.name + ".tcp", service.tcp);
    out.tcp_framing.length = lower_length(m, service);
    out.on_malformed = lower_handler(m, service.name + ".malformed", service.malformed);
    out.on_failure = lower_handler(m, service.name + ".failure", service.failure);
    // Requests of bad form are answered, too: by what there is of them.
    out.on_datagram = lower_handler(m, service.name + ".datagram", service.datagram, false);
    m.out.services.push_back(std::move(out));
}

}  // namespace

ir::Module lower(const checked::Module& module) {
    ModuleContext m(module);
    m.out.app = module.app;
    m.out.match_exe = module.match_exe;
    m.out.sockets = module.sockets;
    m.out.classes = module.classes;
    m.out.batch = module.batch;
    m.out.probes = module.probes;
    m.out.reasons = module.reasons;
    m.out.sources = module.sources;
    for (const checked::FileClass& file : module.files) lower_file_class(m, file);
    for (const checked::Chain& chain : module.chains) lower_chain(m, chain);
    for (const checked::Service& service : module.services) lower_service(m, service);
    return std::move(m.out);
}

}  // namespace chainio::passes
