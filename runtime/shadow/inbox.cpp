#include "runtime/shadow/inbox.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace chainio::shadow {
namespace {

constexpr std::size_t kMostProcesses = 4096;    // remembered by number
constexpr std::uint32_t kMostRead = 256 << 20;  // bytes of a read that count: each page is looked up

bool thread_lives(std::uint32_t process, std::uint32_t thread) {
    if (process == 0 || process > INT32_MAX || thread > INT32_MAX) return false;
    return syscall(SYS_tgkill, static_cast<pid_t>(process), static_cast<pid_t>(thread), 0) == 0 || errno != ESRCH;
}

std::uint32_t own_pids() {
    struct stat info{};
    return stat("/proc/self/ns/pid", &info) == 0 ? static_cast<std::uint32_t>(info.st_ino) : 0;
}

bool has_payload(shim::EventKind kind) {
    using shim::EventKind;
    switch (kind) {
        case EventKind::read:
        case EventKind::begun:
        case EventKind::ended:
        case EventKind::served:
        case EventKind::served_ended:
        case EventKind::closed: return false;
        default: return true;
    }
}

}  // namespace

Inbox::Inbox(shim::Region& region, std::uint32_t classes, std::uint32_t sockets)
    : region_(region), classes_(classes), sockets_(sockets), pids_(own_pids()), heads_(shim::kRings) {}

unsigned Inbox::drain(MessageSink& sink, unsigned most, bool all) {
    if (all) find_rings(sink);
    unsigned count = 0;
    for (std::uint32_t index : active_) count += drain_ring(index, sink, most, true);
    return count;
}

void Inbox::drain_rest(MessageSink& sink) {
    find_rings(sink);
    for (std::uint32_t index : active_) drain_ring(index, sink, UINT32_MAX, false);
}

// Hands the rings to `look` that a thread has ever taken, until it says true.
template <typename Look>
bool Inbox::any_used(Look look) const {
    for (std::uint32_t word = 0; word < shim::kRings / 64; word++) {
        std::uint64_t bits = region_.used_rings[word].load(std::memory_order_acquire);
        for (; bits != 0; bits &= bits - 1) {
            if (look(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)))) return true;
        }
    }
    return false;
}

void Inbox::find_rings(MessageSink& sink) {
    any_used([&](std::uint32_t i) {
        shim::Ring& ring = region_.rings[i];
        // A thread may have ended already and have left events behind.
        const bool owned = ring.owner.load(std::memory_order_acquire) != 0;
        if (!owned && ring.tail.load(std::memory_order_acquire) == heads_[i].position) return false;
        const std::uint32_t process = ring.process.load(std::memory_order_relaxed);
        if (!heads_[i].active) {
            heads_[i].active = true;
            heads_[i].seen_at_reclaim = heads_[i].position;
            active_.push_back(i);
        }
        if (process != heads_[i].process && process != 0) {
            heads_[i].process = process;
            note_process(process, sink);
        }
        const std::uint32_t serves = sink.may_serve(process) ? process : 0;
        std::atomic<std::uint32_t>& told = region_.serves[i];
        if (told.load(std::memory_order_relaxed) != serves) told.store(serves, std::memory_order_relaxed);
        return false;
    });
}

void Inbox::note_process(std::uint32_t process, MessageSink& sink) {
    if (std::ranges::find(processes_, process) != processes_.end()) return;
    region_.stats.processes.fetch_add(1, std::memory_order_relaxed);
    if (processes_.size() < kMostProcesses) processes_.push_back(process);
    sink.on_process(process);
}

bool Inbox::pending(bool all) const {
    const auto holds = [&](std::uint32_t i) {
        return region_.rings[i].tail.load(std::memory_order_acquire) != heads_[i].position;
    };
    return all ? any_used(holds) : std::ranges::any_of(active_, holds);
}

// Up to where the ring's thread has come now.
unsigned Inbox::drain_ring(std::uint32_t index, MessageSink& sink, unsigned most, bool may_pause) {
    shim::Ring& ring = region_.rings[index];
    Head& head = heads_[index];
    const std::uint32_t tail = ring.tail.load(std::memory_order_acquire);
    if (tail == head.position) return 0;
    unsigned count = 0;
    while (tail != head.position && count < most && (count == 0 || !may_pause || !sink.pauses())) {
        const std::uint32_t available = tail - head.position;
        std::uint32_t used = 0;
        if (available > shim::kRingBytes || !take(index, available, sink, used)) {
            region_.stats.bad_events.fetch_add(1, std::memory_order_relaxed);
            head.position = tail;
            count++;
            break;
        }
        head.position += used;
        count++;
    }
    ring.head.store(head.position, std::memory_order_release);
    count_lost(index);
    return count;
}

// Hands over the event at the head; false when it cannot be one. The ring may change while it is looked at, so
// everything is copied before it is judged.
bool Inbox::take(std::uint32_t index, std::uint32_t available, MessageSink& sink, std::uint32_t& used) {
    const shim::Ring& ring = region_.rings[index];
    const std::uint32_t at = heads_[index].position % shim::kRingBytes;
    const std::uint32_t rest = shim::kRingBytes - at;
    if (at % 8 != 0) return false;
    if (rest < sizeof(shim::Event)) {
        used = rest;
        return available >= rest;
    }
    if (available < 8) return false;
    shim::Event event{};
    std::memcpy(&event, ring.data + at, std::min<std::size_t>(available, sizeof event));
    if (event.kind == shim::EventKind::skip) {
        used = rest;
        return available >= rest;
    }
    if (event.bytes < sizeof event || event.bytes % 8 != 0 || event.bytes > available || event.bytes > rest)
        return false;
    used = event.bytes;
    const std::uint32_t room = event.bytes - static_cast<std::uint32_t>(sizeof event);
    std::uint32_t length = 0;
    if (has_payload(event.kind)) {
        if (event.length > room) return false;
        length = event.length;
        std::memcpy(copy_.data(), ring.data + at + sizeof event, length);
    }
    if (!plausible(event)) return false;
    std::uint32_t asked = 0;
    if (!has_payload(event.kind)) {
        if (room >= sizeof asked) std::memcpy(&asked, ring.data + at + sizeof event, sizeof asked);
        event.length = std::min(event.length, kMostRead);
        asked = std::clamp(asked, event.length, kMostRead);
    }
    sink.on_message({event, std::span(copy_).first(length), index, asked});
    return true;
}

bool Inbox::plausible(const shim::Event& event) const {
    using shim::EventKind;
    switch (event.kind) {
        case EventKind::opened: return event.source < classes_ && event.length > 0 && event.length < shim::kMaxPath;
        case EventKind::read:
        case EventKind::begun:
        case EventKind::ended:
        case EventKind::served:
        case EventKind::served_ended:
            return event.source < classes_ && event.offset <= INT64_MAX && event.offset + event.length <= INT64_MAX;
        case EventKind::closed: return event.source < classes_;
        case EventKind::ready: return event.source < sockets_ && event.length <= shim::kMaxPeek;
        case EventKind::probe: return event.source < shim::kMaxProbes && event.length <= shim::kMaxProbeBytes;
        case EventKind::ran:
            return event.source < shim::kMaxChains && event.length == sizeof(shim::Ran) && event.offset <= INT64_MAX;
        case EventKind::passed: return event.source <= sockets_ && event.length < shim::kMaxPath;
        case EventKind::note: return event.length < shim::kMaxPath;
        case EventKind::skip: break;
    }
    return false;
}

void Inbox::count_lost(std::uint32_t index) {
    const std::uint32_t lost = region_.rings[index].lost.load(std::memory_order_relaxed);
    if (lost == heads_[index].lost) return;
    region_.stats.lost_events.fetch_add(lost - heads_[index].lost, std::memory_order_relaxed);
    heads_[index].lost = lost;
}

// Of a ring that has stood still. Who was about to take it would have done so. Numbers of another PID namespace say
// nothing here: such rings are taken over by threads that live there.
bool Inbox::is_gone(const shim::Ring& ring, std::uint32_t owner) const {
    if ((owner & shim::kTaking) != 0) return true;
    const std::uint32_t pids = ring.pids.load(std::memory_order_relaxed);
    if (pids != 0 && pids_ != 0 && pids != pids_) return false;
    return !thread_lives(ring.process.load(std::memory_order_relaxed), owner);
}

void Inbox::reclaim() {
    std::erase_if(active_, [&](std::uint32_t index) {
        shim::Ring& ring = region_.rings[index];
        Head& head = heads_[index];
        std::uint32_t owner = ring.owner.load(std::memory_order_acquire);
        const std::uint32_t tail = ring.tail.load(std::memory_order_acquire);
        count_lost(index);
        const bool still = tail == head.position && head.position == head.seen_at_reclaim;
        head.seen_at_reclaim = head.position;
        if (!still) return false;
        if (owner != 0) {
            if (!is_gone(ring, owner)) return false;
            if (!ring.owner.compare_exchange_strong(owner, 0, std::memory_order_acq_rel)) return false;
        }
        head.active = false;
        head.process = 0;
        return true;
    });
}

}  // namespace chainio::shadow
