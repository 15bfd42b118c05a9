// What requests hold of the engine's memory while they wait, for room in a connection or for frames that others have.
#include <cstring>
#include <utility>

#include "runtime/net/clock.h"
#include "runtime/service/requests.h"

namespace chainio::service {

void Requests::park(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.parked || parked_ == places_.parked) return;
    vacate(slot);
    slot.parked = true;
    in_places_of(slot)--;
    parked_++;
}

// Gives back all that it holds of the engine's memory: results are copied to memory of its own, and what was read ahead
// is read again. What a reply has taken comes back with the reply, or when that has left.
void Requests::vacate(Slot& slot) {
    drop_ahead(slot);
    for (std::size_t i = 0; i < slot.kept.size(); i++) {
        Kept& kept = slot.kept[i];
        if (kept.at.frame == umem::kNoFrame || (!kept.ours && !slot.output->sends_early())) continue;
        // Nothing, where the same call has found nothing since.
        if (const ir::Bytes bytes = slot.run->result(i); !bytes.empty()) {
            std::uint8_t* to = slot.results + result_stride_ * i;
            std::memcpy(to, bytes.data(), bytes.size());
            slot.run->moved(i, {to, bytes.size()});
            slot.copies++;
            slot.moved = true;
        }
        give_back(slot, kept);
    }
}

// Whether it may wait for a frame any longer.
bool Requests::is_patient(Slot& slot) const {
    if (slot.hopeless) return false;
    const std::uint64_t now = net::now_ns();
    if (slot.short_since_ns == 0) slot.short_since_ns = now;
    return now - slot.short_since_ns < patience_ns_;
}

void Requests::had_memory(Slot& slot) {
    if (!slot.anew) slot.short_since_ns = 0;
    slot.times_short = 0;
}

bool Requests::start_again(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.program < 0 || slot.on_failure || slot.on_malformed || !is_patient(slot)) return false;
    give_back_all(slot);
    slot.skips = slot.io->result = 0;
    slot.ending = Ending::answered;
    slot.closes = slot.torn = false;
    slot.was_short = slot.anew = true;
    slot.times_short = 0;
    begin(slot, slot.program);
    return true;
}

// Of a chain that has ended for want of a frame, whether it is to be made again: frames that replies lie in come back.
// Those who wait hold none themselves, so that they do not wait for one another.
bool Requests::waits_for_memory(Slot& slot) {
    if (!is_patient(slot)) return false;
    vacate(slot);
    slot.is_short = slot.was_short = true;
    slot.times_short++;
    slot.run->call_again();
    return true;
}

void Requests::unpark(Slot& slot) {
    if (!std::exchange(slot.parked, false)) return;
    in_places_of(slot)++;
    parked_--;
}

}  // namespace chainio::service
