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

NestedProcess process_of(const shim::Holder& holder) {
    return {holder.pids.load(std::memory_order_relaxed), holder.process.load(std::memory_order_relaxed)};
}

bool thread_lives(std::uint32_t process, std::uint32_t thread) {
    if (process == 0 || process > INT32_MAX || thread > INT32_MAX) return false;
    return syscall(SYS_tgkill, static_cast<pid_t>(process), static_cast<pid_t>(thread), 0) == 0 || errno != ESRCH;
}

// Of whichever process, as long as it is numbered as we are: kill(2) takes any thread's number.
bool thread_lives(std::uint32_t thread) {
    if (thread == 0 || thread > INT32_MAX) return false;
    return kill(static_cast<pid_t>(thread), 0) == 0 || errno != ESRCH;
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
        case EventKind::direct:
        case EventKind::direct_begun:
        case EventKind::direct_ended:
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
        const shim::Holder& holder = region_.holders[i];
        // A thread may have ended already and have left events behind.
        const std::uint32_t owner = holder.owner.load(std::memory_order_acquire);
        if (owner == 0 && region_.rings[i].tail.load(std::memory_order_acquire) == heads_[i].position) return false;
        const std::uint32_t process = holder.process.load(std::memory_order_relaxed);
        if (!heads_[i].active) {
            heads_[i].active = true;
            heads_[i].seen_at_reclaim = heads_[i].position;
            active_.push_back(i);
        }
        // While it is taken, the number and its namespace may be of two processes.
        const bool settled = (owner & shim::kTaking) == 0;
        const std::uint32_t image = holder.image.load(std::memory_order_relaxed);
        if (settled && (process != heads_[i].process || image != heads_[i].image) && process != 0) {
            heads_[i].process = process;
            heads_[i].image = image;
            note_process(holder, process, sink);
        }
        const bool may_be_asked = settled && !is_elsewhere(holder);
        const std::uint32_t serves = may_be_asked && sink.may_serve(process) ? process : 0;
        std::atomic<std::uint32_t>& told = region_.serves[i];
        if (told.load(std::memory_order_relaxed) != serves) told.store(serves, std::memory_order_relaxed);
        return false;
    });
}

// What /proc says of that number here would be of another process.
bool Inbox::is_elsewhere(const shim::Holder& holder) const {
    const std::uint32_t pids = holder.pids.load(std::memory_order_relaxed);
    return pids != 0 && pids_ != 0 && pids != pids_;
}

// Processes of two namespaces may have the same number. One that executes a program is one process still, as far as
// that can be told.
void Inbox::note_process(const shim::Holder& holder, std::uint32_t process, MessageSink& sink) {
    const std::uint32_t image = is_elsewhere(holder) ? holder.image.load(std::memory_order_relaxed) : 0;
    const bool is_new = hear_of({{holder.pids.load(std::memory_order_relaxed), process}, image});
    if (is_new && !is_elsewhere(holder)) sink.on_process(process);
}

// Whether it was not heard of before.
bool Inbox::hear_of(const Heard& process) {
    if (std::ranges::find(processes_, process) != processes_.end()) return false;
    region_.stats.processes.fetch_add(1, std::memory_order_relaxed);
    if (processes_.size() < kMostProcesses) processes_.push_back(process);
    return true;
}

// Children of fork may follow one another on one ring more quickly than it is looked at: of those that have ended by
// then, what they have left tells. It has no namespace, so that such a number is only counted.
void Inbox::note_poster(std::uint32_t index, std::uint32_t process) {
    Head& head = heads_[index];
    if (process == head.process || process == head.poster || process == 0) return;
    head.poster = process;
    const shim::Holder& holder = region_.holders[index];
    if (!is_elsewhere(holder)) hear_of({{holder.pids.load(std::memory_order_relaxed), process}, 0});
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
    note_poster(index, event.process);
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
        case EventKind::direct:
        case EventKind::direct_begun:
        case EventKind::direct_ended:
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

// Which processes of other PID namespaces have ended, of those whose rings stand still. Threads that live there take
// such rings over, but of a namespace that has ended nobody does. To look takes as long as there are processes: it is
// left until rings become few, and comes less and less often while it finds none.
void Inbox::look_elsewhere() {
    constexpr unsigned kLongestPause = 15;
    gone_.clear();
    if (active_.size() < shim::kRings / 2) return;
    if (until_look_ != 0) {
        until_look_--;
        return;
    }
    for (const std::uint32_t index : active_) {
        const shim::Holder& holder = region_.holders[index];
        const std::uint32_t owner = holder.owner.load(std::memory_order_acquire);
        if (!heads_[index].still || owner == 0 || (owner & shim::kTaking) != 0 || !is_elsewhere(holder)) continue;
        const NestedProcess one = process_of(holder);
        if (std::ranges::find(gone_, one) == gone_.end()) gone_.push_back(one);
    }
    strike_living(gone_);
    pause_ = gone_.empty() ? std::min(2 * pause_ + 1, kLongestPause) : 0;
    until_look_ = pause_;
}

// Their numbers come again. Where no namespace is known, a number says nothing.
void Inbox::forget_ended() {
    std::erase_if(processes_, [&](Heard& heard) {
        const auto& [pids, number] = heard.process;
        if (pids == 0 || pids_ == 0) return false;
        const bool is_gone = pids != pids_
                                 ? std::ranges::find(gone_, heard.process) != gone_.end()
                                 : number > INT32_MAX || (kill(static_cast<pid_t>(number), 0) != 0 && errno == ESRCH);
        return std::exchange(heard.is_gone, is_gone) && is_gone;
    });
}

// Of a ring that has stood still. Who is about to take it may have been stopped amid that: once it goes on, it would
// write its numbers into a ring that is another's by then. Of which namespace its number is nobody knows yet.
bool Inbox::is_gone(const shim::Holder& holder, std::uint32_t owner) const {
    if ((owner & shim::kTaking) != 0) return !thread_lives(owner & ~shim::kTaking);
    const NestedProcess process = process_of(holder);
    if (is_elsewhere(holder)) return std::ranges::find(gone_, process) != gone_.end();
    return !thread_lives(process.number, owner);
}

void Inbox::reclaim() {
    for (const std::uint32_t index : active_) {
        Head& head = heads_[index];
        count_lost(index);
        const std::uint32_t tail = region_.rings[index].tail.load(std::memory_order_acquire);
        head.still = tail == head.position && head.position == head.seen_at_reclaim;
        head.seen_at_reclaim = head.position;
    }
    look_elsewhere();
    forget_ended();
    std::erase_if(active_, [&](std::uint32_t index) {
        shim::Holder& holder = region_.holders[index];
        Head& head = heads_[index];
        std::uint32_t owner = holder.owner.load(std::memory_order_acquire);
        if (!head.still || region_.rings[index].tail.load(std::memory_order_acquire) != head.position) return false;
        if (owner != 0) {
            if (!is_gone(holder, owner)) return false;
            if (!holder.owner.compare_exchange_strong(owner, 0, std::memory_order_acq_rel)) return false;
        }
        head.active = false;
        head.process = 0;
        return true;
    });
}

}  // namespace chainio::shadow
