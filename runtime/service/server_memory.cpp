// Requests that find no memory: who waits, who lets go of what he has for others, and who fails, as no waiting helps.
#include <algorithm>

#include "runtime/engine/owners.h"
#include "runtime/net/clock.h"
#include "runtime/service/server.h"

namespace chainio::service {
namespace {

constexpr unsigned kTimesShort = 8;              // in a row, until the reply that keeps its memory is made anew as well
constexpr std::uint64_t kAlone = 1'000'000'000;  // ns, at most, for one alone: longer than disks take

}  // namespace

// A reply to a datagram lies in memory until all of it is there. Of the requests that wait for more, the first one
// keeps what it has for a while; the others let go of theirs and begin anew, as all would wait for one another else. In
// the end the first one does too: its short frames may lie so that there is no room for a long one between them.
void Server::give_way(Generation& generation, std::uint32_t slot) {
    const auto holds = [&](std::uint32_t each) { return holds_reply(generation, each); };
    const bool first = std::ranges::none_of(generation.short_of_memory, holds);
    if (!holds(slot) || (first && generation.requests.times_short(slot) < kTimesShort)) return;
    if (!generation.requests.start_again(slot)) return;
    datagrams_[generation.requests.connection(slot) - kFirstDatagram].answer.clear();
}

bool Server::holds_reply(const Generation& generation, std::uint32_t slot) const {
    const std::uint32_t index = generation.requests.connection(slot);
    return index >= kFirstDatagram && !datagrams_[index - kFirstDatagram].answer.frames().empty();
}

// Whether nobody but the request itself has memory that would be of use to it. What a port has posted, or received,
// does not go to others; blocks that are only kept yield, but for those that chains in flight have.
bool Server::holds_alone(const Generation& generation, std::uint32_t slot) const {
    const Requests& requests = generation.requests;
    const std::uint32_t index = requests.connection(slot);
    const auto own = [&](umem::Frame frame) {
        if (requests.has(slot, frame)) return true;
        if (index < kFirstDatagram) return connections_[index].output.lends(frame, generation.lender);
        const auto frames = datagrams_[index - kFirstDatagram].answer.frames();
        return std::ranges::find(frames, frame) != frames.end();
    };
    const bool kept_yield = generation.engine.in_flight() == 0;
    return generation.engine.slab().is_alone(own, [=](umem::Owner owner) {
        const bool is_kept = owner >= engine::kCacheOwner && owner < engine::kHandedOut;
        return !net::Owners::keep(owner) && !(is_kept && kept_yield);
    });
}

// Who is short a second time has looked nothing ahead, and has copied its results out: when it is alone even so, it
// fails the next time. Over tcp what is replied comes back once the client takes it.
void Server::wait_for_memory(Generation& generation, std::uint32_t slot) {
    if (generation.alone == slot) generation.alone = engine::kNoIndex;
    generation.short_of_memory.push_back(slot);
    if (!holds_alone(generation, slot))
        return fallbacks_->note("short-of-memory",
                                "requests waited for memory that replies to other clients lay in; --memory gives more");
    const std::uint32_t index = generation.requests.connection(slot);
    if (generation.requests.times_short(slot) < 2) return;
    if (index < kFirstDatagram && connections_[index].output.lends_any()) return;
    generation.requests.lose_patience(slot);
    note_too_little_memory();
}

void Server::note_too_little_memory() {
    fallbacks_->note("too-little-memory",
                     "a request failed that wants more memory than there is, whatever others give back: the results of "
                     "a reply to a datagram lie there together, and each length of them takes 128 KiB; --memory gives "
                     "more");
}

// A reply that is more than its datagrams hold is not sent in part: the client is told instead. One that only found no
// memory is made anew, unless that has been done and nobody else has any.
void Server::datagram_reply_too_long(Generation& generation, std::uint32_t slot) {
    Datagram& datagram = datagrams_[generation.requests.connection(slot) - kFirstDatagram];
    const bool wants_memory = datagram.answer.wants_memory();
    if (wants_memory && generation.requests.has_begun_anew(slot) && holds_alone(generation, slot)) {
        note_too_little_memory();
    } else if (wants_memory && generation.requests.start_again(slot)) {
        datagram.answer.clear();
        return wait_for_memory(generation, slot);
    }
    counters_of(datagram).reply_too_long += datagram.dropped || wants_memory ? 0 : 1;
    drop_datagram_reply(generation, slot);
}

// Every other time only the one that has kept what it has: the others, who hold nothing then, would take what it waits
// for, and nobody could tell whether there is enough for it at all. Where nobody has kept anything, it is one that has
// begun anew, and until it has ended, or waits again, no other one is gone on with, and none begins: side by side, each
// would have what the other one wants again and again.
void Server::go_on_short(Generation& generation) {
    auto& waiting = generation.short_of_memory;
    if (generation.alone != engine::kNoIndex) {
        if (net::now_ns() < generation.alone_until_ns) return;
        generation.alone = engine::kNoIndex;
        start_waiting();
    }
    auto one = std::ranges::find_if(waiting, [&](std::uint32_t each) { return holds_reply(generation, each); });
    const bool keeps = one != waiting.end();
    if (!keeps)
        one =
            std::ranges::find_if(waiting, [&](std::uint32_t each) { return generation.requests.has_begun_anew(each); });
    generation.one_by_one = !generation.one_by_one && one != waiting.end();
    if (!generation.one_by_one) return go_on_all(generation, waiting);
    const std::uint32_t slot = *one;
    waiting.erase(one);
    if (!keeps) {
        generation.alone = slot;
        generation.alone_until_ns = net::now_ns() + kAlone;
    }
    go_on(generation, slot);
}

}  // namespace chainio::service
