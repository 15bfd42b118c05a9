// Chains that a handler will call in the next rounds of its loop, started before it comes to them: a request for ten
// keys waits for the disk once. What they give is used in the handler's order, so that a reply is as without.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/engine/owners.h"
#include "runtime/service/requests.h"

namespace chainio::service {
namespace {

// Bytes lie in the request or in the literals, both of which stay: who looks ahead has no results.
bool same(const engine::Argument& a, const engine::Argument& b) {
    return a.kind == b.kind && a.value == b.value && a.bytes.data() == b.bytes.data() &&
           a.bytes.size() == b.bytes.size();
}

}  // namespace

// Runs the handler further as if nothing were found, and starts the calls that it makes at the same place.
void Requests::look_ahead(Slot& slot, std::uint32_t index) {
    const ir::CallChain& call = slot.run->call();
    if (!std::ranges::binary_search(ahead_calls_, &call)) return;
    auto& io = *reinterpret_cast<cio_io*>(io_memory_.base() + io_stride_ * slots_.size());
    ir::HandlerRun scout(*slot.run, io, scout_memory_);
    for (unsigned count = 0; count < kMostAhead && free_aheads_ != kNone; count++) {
        scout.answer_absent();
        ir::HandlerRun::Stop stop = scout.go_on();
        while (stop == ir::HandlerRun::Stop::reply) stop = scout.go_on();
        if (stop != ir::HandlerRun::Stop::call || &scout.call() != &call || bind(scout, call) != CIO_OK) return;
        const std::uint32_t number = free_aheads_;
        if (!engine_.submit(call.chain, arguments_, kOurs | kAhead | number)) return;
        Ahead& ahead = aheads_[number];
        free_aheads_ = std::exchange(ahead.next, kNone);
        aheads_used_++;
        ahead.slot = index;
        ahead.call = &call;
        ahead.arguments.assign(arguments_.begin(), arguments_.end());
        ahead.ended = false;
        (slot.ahead == kNone ? slot.ahead : aheads_[slot.last_ahead].next) = number;
        slot.last_ahead = number;
    }
}

// Whether the call, with the arguments that were bound last, is the one that was started first.
bool Requests::is_next(const Slot& slot, const ir::CallChain& call) const {
    if (slot.ahead == kNone) return false;
    const Ahead& ahead = aheads_[slot.ahead];
    return ahead.call == &call && std::ranges::equal(ahead.arguments, arguments_, same);
}

void Requests::answer_from_ahead(Slot& slot) {
    const std::uint32_t number = slot.ahead;
    Ahead& ahead = aheads_[number];
    slot.ahead = ahead.next;
    slot.waits_ahead = false;
    if (ahead.outcome == CIO_NO_MEMORY && waits_for_memory(slot)) return free_ahead(number);
    had_memory(slot);
    if (!answer_plain(slot, ahead.outcome, ahead.kind, ahead.scalar)) {
        if (ahead.kept.frame != umem::kNoFrame)
            answer_kept(slot, std::exchange(ahead.kept, {}));
        else
            answer_copy(slot, ahead.bytes);
    }
    free_ahead(number);
}

std::optional<std::uint32_t> Requests::take_ahead(const engine::Completion& completion) {
    const auto number = static_cast<std::uint32_t>(completion.user_data);
    Ahead& ahead = aheads_[number];
    if (ahead.slot == kNone) {
        free_ahead(number);
        return std::nullopt;
    }
    ahead.ended = true;
    ahead.outcome = completion.outcome;
    ahead.kind = completion.kind;
    ahead.scalar = completion.scalar;
    ahead.bytes = {};
    Slot& slot = slots_[ahead.slot];
    if (completion.outcome == CIO_OK && completion.kind != ir::ResultKind::scalar) {
        if (const auto kept = engine_.keep(completion)) {
            ahead.kept = *kept;
        } else if (const auto bytes = completion.bytes.first(std::min(completion.bytes.size(), result_stride_));
                   !bytes.empty()) {
            std::uint8_t* to = ahead_memory_.base() + result_stride_ * number;
            std::memcpy(to, bytes.data(), bytes.size());
            ahead.bytes = {to, bytes.size()};
            slot.copies++;
        }
    }
    if (!slot.waits_ahead || slot.ahead != number) return std::nullopt;
    const std::uint32_t index = ahead.slot;
    answer_from_ahead(slot);
    return index;
}

// The handler has taken another way, or has ended: what runs is given up, and what has come is thrown away.
void Requests::drop_ahead(Slot& slot) {
    slot.waits_ahead = false;
    while (slot.ahead != kNone) {
        const std::uint32_t number = slot.ahead;
        Ahead& ahead = aheads_[number];
        slot.ahead = ahead.next;
        ahead.slot = kNone;
        if (ahead.ended)
            free_ahead(number);
        else
            engine_.cancel(kOurs | kAhead | number);
    }
}

void Requests::free_ahead(std::uint32_t number) {
    Ahead& ahead = aheads_[number];
    if (ahead.kept.frame != umem::kNoFrame) engine_.memory().release(ahead.kept.frame, engine::kHandedOut);
    ahead.kept = {};
    ahead.next = std::exchange(free_aheads_, number);
    aheads_used_--;
}

}  // namespace chainio::service
