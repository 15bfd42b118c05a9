#include "tools/chainio/testing/bind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/diag/diag.h"
#include "runtime/shim/protocol.h"

namespace chainio::testing {
namespace {

using Problem = std::unexpected<std::string>;

std::vector<std::string> parameter_names(const ir::Chain& chain, bool files) {
    std::vector<std::string> names;
    for (const auto& param : chain.params) {
        if ((param.kind == ir::Param::Kind::file) == files) names.push_back(param.name);
    }
    return names;
}

template <typename Map>
std::string unknown_name(const Map& given, const std::vector<std::string>& known, std::string_view what) {
    for (const auto& [name, value] : given) {
        if (std::ranges::find(known, name) != known.end()) continue;
        const auto near = diag::nearest(name, known);
        const std::string hint = near            ? fmt::format("did you mean '{}'?", *near)
                                 : known.empty() ? "it has none"
                                                 : fmt::format("it has {}", fmt::join(known, ", "));
        return fmt::format("the chain has no {} '{}'; {}", what, name, hint);
    }
    return {};
}

std::string misfit(const ir::Param& param, const Value& value) {
    if (param.kind == ir::Param::Kind::bytes) {
        if (!value.is_bytes)
            return fmt::format("'{}' takes bytes; write a number's digits in quotes, or its bytes as {{ u32be: … }}",
                               param.name);
        if (value.bytes.size() > param.max)
            return fmt::format("'{}' takes at most {} bytes, not {}", param.name, param.max, value.bytes.size());
        return {};
    }
    if (value.is_bytes) return fmt::format("'{}' takes an integer", param.name);
    // As `chainio call` takes them.
    const std::uint64_t top = std::uint64_t{1} << (param.bits - 1);
    const std::uint64_t most = param.is_signed ? top - 1 : top - 1 + top;
    const std::uint64_t distance = value.is_negative ? 0 - value.integer : value.integer;  // from 0
    const std::string shown = fmt::format("{}{}", value.is_negative ? "-" : "", distance);
    if (value.is_negative && !param.is_signed)
        return fmt::format("{} does not fit '{}', which has no negative values", shown, param.name);
    if (value.is_negative ? distance <= top : distance <= most) return {};
    return fmt::format("{} does not fit '{}', which has {} bits{}", shown, param.name, param.bits,
                       param.is_signed ? " with a sign" : "");
}

}  // namespace

std::expected<std::uint32_t, std::string> find_chain(const spec::Loaded& spec, const Case& test) {
    const auto found = spec.find_chain(test.chain);
    if (!found) {
        std::vector<std::string> names;
        for (const auto& chain : spec.module().chains) names.push_back(chain.name);
        const auto near = diag::nearest(test.chain, names);
        return Problem(fmt::format(
            "the spec has no chain '{}'; {}", test.chain,
            near ? fmt::format("did you mean '{}'?", *near) : fmt::format("it has {}", fmt::join(names, ", "))));
    }
    const ir::ChainMode mode = spec.module().chains[*found].mode;
    const bool call = mode == ir::ChainMode::call;
    if (mode == ir::ChainMode::on_probe) {
        if (test.event) return Problem("this chain reacts to a probe; give its arguments as `args`, not an `event`");
        return *found;
    }
    if (call && test.event) return Problem("this chain is called; a call has `files` and `args`, not an `event`");
    if (!call && !test.event) return Problem("this chain reacts to what a program read; give the `event`");
    return *found;
}

std::expected<CallInput, std::string> bind_call(const ir::Module& module, std::uint32_t chain_index, const Case& test,
                                                Workspace& workspace) {
    const ir::Chain& chain = module.chains[chain_index];
    if (const auto error = unknown_name(test.files, parameter_names(chain, true), "file parameter"); !error.empty())
        return Problem(error);
    if (const auto error = unknown_name(test.args, parameter_names(chain, false), "parameter"); !error.empty())
        return Problem(error);
    CallInput input{chain_index, {}, {}};
    for (const auto& param : chain.params) {
        if (param.kind == ir::Param::Kind::file) {
            const auto name = test.files.find(param.name);
            if (name == test.files.end()) return Problem(fmt::format("the case gives no file for '{}'", param.name));
            auto bytes = workspace.file(name->second);
            if (!bytes) return Problem(bytes.error());
            input.files.emplace_back(**bytes);
            continue;
        }
        const auto value = test.args.find(param.name);
        if (value == test.args.end()) return Problem(fmt::format("the case gives no value for '{}'", param.name));
        if (const auto error = misfit(param, value->second); !error.empty()) return Problem(error);
        input.args.push_back(value->second);
    }
    return input;
}

std::expected<BoundEvent, std::string> bind_event(const ir::Chain& chain, const Case& test, Workspace& workspace) {
    const Event& event = *test.event;
    if (chain.mode == ir::ChainMode::on_ready && event.bytes.size() > shim::kMaxPeek)
        return Problem(
            fmt::format("a chain sees at most {} bytes of what waits on a socket, and these are {}; give the "
                        "first",
                        shim::kMaxPeek, event.bytes.size()));
    if (event.file.empty())
        return BoundEvent{event.bytes, event.at, event.total.value_or(event.bytes.size()), event.mark, event.last_mark};
    auto bytes = workspace.file(event.file);
    if (!bytes) return Problem(bytes.error());
    const Bytes& all = **bytes;
    const std::uint64_t at = std::min<std::uint64_t>(event.at, all.size());
    const std::uint64_t length = std::min<std::uint64_t>(event.length.value_or(CIO_MAX_BLOCK), all.size() - at);
    if (length > CIO_MAX_BLOCK) return Problem(fmt::format("an event holds at most 64 KiB, not {} bytes", length));
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    return BoundEvent{Bytes(begin, begin + static_cast<std::ptrdiff_t>(length)),
                      event.at,
                      event.total.value_or(length),
                      event.mark,
                      event.last_mark,
                      *bytes};
}

}  // namespace chainio::testing
