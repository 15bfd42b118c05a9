#include "tools/chainio/run/probes.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/probe/privileges.h"

namespace chainio::run {
namespace {

std::string name_of(const ir::Probe& probe) {
    return fmt::format("probe {} ({} \"{}\")", probe.name, probe.kind, probe.site);
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

void give_up_privileges(std::vector<std::string>& notes) {
    const auto dropped = probe::drop_privileges();
    if (dropped) return;
    const std::string note = fmt::format(
        "chainio goes on with the privileges that it has, more than it needs beside a program: {}", dropped.error());
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
}

std::unique_ptr<probe::Session> attach_probes(const spec::Loaded& spec, const std::string& program) {
    return probe::Session::attach(spec.probe_object(), spec.module(), program);
}

void tell_of_probes(probe::Session& session, shadow::Server& server) {
    if (!session.attached().empty()) server.listen_to(session);
    for (const probe::RefusedProbe& refused : session.refused())
        if (std::ranges::find(session.attached(), refused.probe, &probe::AttachedSite::probe) ==
            session.attached().end())
            server.lacks(refused.probe);
}

void report_probes(const ir::Module& module, const probe::Session& session, bool explain, shadow::Report& report) {
    for (const probe::RefusedProbe& refused : session.refused()) {
        for (const ir::Chain& chain : module.chains)
            if (chain.mode == ir::ChainMode::on_probe && chain.source == refused.probe)
                report.refused.push_back(
                    fmt::format("{}: {}: {}", chain.name, name_of(module.probes[refused.probe]), refused.why));
    }
    for (const probe::AttachedSite& site : session.attached()) {
        if (!site.slow && !explain) continue;
        report.notes.push_back(
            fmt::format("{} is attached to {}, {}", name_of(module.probes[site.probe]), site.where, site.cost));
    }
    for (std::size_t i = 0; i < module.probes.size(); i++) {
        const probe::Counts counts = session.counts(static_cast<std::uint16_t>(i));
        if (counts.lost != 0)
            report.notes.push_back(fmt::format("{}: {} found no room in the ring", name_of(module.probes[i]),
                                               counted(counts.lost, "event", "events")));
        if (counts.unreadable != 0)
            report.notes.push_back(fmt::format("{}: {} had an argument in memory that could not be read just then",
                                               name_of(module.probes[i]),
                                               counted(counts.unreadable, "event", "events")));
    }
    if (session.untracked() != 0)
        report.notes.push_back(fmt::format("the probes of {} were not seen: a run has at most 8192 at a time",
                                           counted(session.untracked(), "process", "processes")));
}

}  // namespace chainio::run
