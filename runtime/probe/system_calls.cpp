// System calls by name; the table is made from the kernel's own header when ChainIO is built.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/diag/diag.h"
#include "runtime/probe/sites.h"

namespace chainio::probe {
namespace {

constexpr std::pair<std::string_view, std::uint32_t> kCalls[] = {
#include "runtime/probe/system_calls.inc"
};

}  // namespace

std::expected<Site, std::string> system_call_site(const ir::Probe& probe) {
    for (const auto& [name, number] : kCalls) {
        if (name != probe.site) continue;
        if (probe.args.size() > CIO_SYSCALL_ARGS)
            return std::unexpected(fmt::format("a system call has {} arguments, and the spec declares {}",
                                               CIO_SYSCALL_ARGS, probe.args.size()));
        Site site;
        site.offset = number;
        site.cost = Cost::system_call;
        return site;
    }
    std::vector<std::string> names;
    for (const auto& [name, number] : kCalls) names.emplace_back(name);
    const auto near = diag::nearest(probe.site, names);
    return std::unexpected(fmt::format("there is no system call `{}`{}", probe.site,
                                       near ? fmt::format(", did you mean `{}`?", *near) : ""));
}

std::string_view system_call_name(std::uint64_t number) {
    const auto* const found = std::ranges::find(kCalls, number, &std::pair<std::string_view, std::uint32_t>::second);
    return found == std::end(kCalls) ? std::string_view() : found->first;
}

}  // namespace chainio::probe
