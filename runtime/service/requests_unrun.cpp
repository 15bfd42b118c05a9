// What requests say before they run, or without being run: how long they are, and what of the bytes behind them.
#include <algorithm>
#include <array>
#include <variant>

#include "compiler/ir/visit.h"
#include "runtime/service/requests.h"

namespace chainio::service {
namespace {

// Whether it says anything of what is behind a request: that it is none, or that the connection ends.
bool tells(const ir::Body& body, std::uint32_t close_outcome) {
    return std::ranges::any_of(body, [=](const ir::Stmt& stmt) {
        const auto* fail = std::get_if<ir::Fail>(&stmt.node);
        bool any = std::holds_alternative<ir::Skip>(stmt.node) || (fail != nullptr && fail->outcome == close_outcome);
        ir::for_each_body(stmt, [&](const ir::Body& nested) { any = any || tells(nested, close_outcome); });
        return any;
    });
}

}  // namespace

void Requests::find_tellers() {
    for (const ir::Service& each : module_.services)
        tells_.push_back(std::ranges::any_of(
            std::array{each.on_request_tcp, each.on_request_udp, each.on_malformed, each.on_failure},
            [&](std::int32_t program) {
                return program >= 0 && tells(module_.programs[static_cast<std::size_t>(program)].body, close_outcome_);
            }));
}

Request Requests::fields_of(const ir::Framing& framing, std::span<const std::uint8_t> bytes) {
    if (framing.length < 0) return {Cut::whole, framing.bytes};
    auto& io = *reinterpret_cast<cio_io*>(io_memory_.base() + io_stride_ * slots_.size());
    ir::HandlerRun scout = run_in(io, scout_memory_, framing.length, bytes);
    if (scout.go_on() == ir::HandlerRun::Stop::reply) {
        const std::uint64_t length = scout.value(scout.reply().parts.front().value);
        // One of no bytes would be followed by another one without end.
        return {length == 0 && framing.end.empty() ? Cut::bad : Cut::whole, length};
    }
    return {scout.outcome() == CIO_SHORT_READ ? Cut::more : Cut::bad, 0};
}

Requests::Unrun Requests::unrun(std::uint32_t service, std::int32_t program, std::span<const std::uint8_t> request) {
    if (!tells_[service]) return {};
    auto& io = *reinterpret_cast<cio_io*>(io_memory_.base() + io_stride_ * slots_.size());
    ir::HandlerRun scout = run_in(io, scout_memory_, program, request);
    while (scout.go_on() == ir::HandlerRun::Stop::reply) {}
    const std::uint32_t outcome = scout.outcome();
    return {.ending = outcome == CIO_MALFORMED ? Ending::malformed : Ending::failed,
            .skips = scout.skipped(),
            .closes = outcome != CIO_OK && outcome == close_outcome_};
}

Requests::Unrun Requests::unanswered(std::uint32_t service, std::int32_t program,
                                     std::span<const std::uint8_t> request) {
    Unrun all = unrun(service, program, request);
    const ir::Service& spec = module_.services[service];
    const bool failure = all.ending == Ending::failed && spec.on_failure >= 0;
    const std::int32_t handler = failure ? spec.on_failure : spec.on_malformed;
    if (handler < 0) return all;
    const Unrun answer = unrun(service, handler, request);
    all.skips += answer.skips;
    all.closes = all.closes || answer.closes;
    return all;
}

}  // namespace chainio::service
