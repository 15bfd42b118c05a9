// What the server is told about reads and about sockets that have something to read.
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/shim/next.h"
#include "runtime/shim/own_chain.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {

static void note_waits() {
    rusage usage;
    if (!failed(raw_call(SYS_getrusage, RUSAGE_THREAD, word(&usage)))) producer.waits = usage.ru_nvcsw;
}

void post(Region& region, const Event& event, const void* payload, std::uint32_t bytes) {
    const Ring* before = producer.ring;
    post_event(region, process(), event, payload, bytes);
    if (!producer.ring || producer.ring == before) return;
    release_at_thread_end();
    note_waits();
}

void post_note(Note note, const char* text, std::uint64_t device, std::uint64_t inode) {
    Region* found = live_region();
    if (!found) return;
    if (note == Note::io_uring || note == Note::aio) process().rings.store(1, std::memory_order_relaxed);
    Event event{};
    event.kind = EventKind::note;
    event.source = static_cast<std::uint8_t>(note);
    event.device = device;
    event.inode = inode;
    event.length = text ? static_cast<std::uint32_t>(std::min<std::size_t>(std::strlen(text), kMaxPath)) : 0;
    post(*found, event, text, event.length);
}

bool wants(const Slot& slot, std::uint32_t what) {
    const Region* found = live_region();
    if (!found) return false;
    if (slot.kind() == Kind::file)
        return found->class_posts[slot.rule() % kMaxClasses].load(std::memory_order_relaxed) & what;
    return found->socket_posts[slot.rule() % kMaxSockets].load(std::memory_order_relaxed) & what;
}

// Whether this read is one of those to be timed while only slow ones are wanted.
static bool is_looked_at() {
    if (producer.until_look > 1) {
        --producer.until_look;
        return false;
    }
    producer.until_look = kLookedAt << producer.quick_looks / kQuickLooks;
    return true;
}

bool looks_at_read(const Slot& slot, bool is_long) {
    const Region* found = live_region();
    if (!found) return false;
    const std::uint32_t posts = found->class_posts[slot.rule() % kMaxClasses].load(std::memory_order_relaxed);
    if (posts & kPostReads) return true;
    if (!(posts & kPostSlowReads)) return false;
    return is_long || producer.posted_after != 0 || is_looked_at();
}

bool concerns_us(const Slot& slot, std::size_t asked) {
    const Kind kind = slot.kind();
    return kind == Kind::file ? looks_at_read(slot, asked >= kLongRead) : kind == Kind::socket;
}

// The program's own clock (libfaketime) may set errno.
std::uint64_t now_ns() {
    timespec now{};
    const int before = errno;
    clock_gettime(CLOCK_MONOTONIC, &now);
    errno = before;
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// A read that took long has waited for a device only if the thread gave up its processor by itself. Others were put
// aside for somebody else's sake, which is no reason to read ahead, or copied much.
static bool has_waited(std::uint32_t took, std::int64_t bytes) {
    if (took < quick_for(static_cast<std::uint64_t>(bytes))) return false;
    const long before = producer.waits;
    note_waits();
    return producer.waits != before;
}

static Event event_of(const Slot& slot, EventKind kind, std::int64_t offset, std::uint64_t length) {
    const Opening& opening = table.opening(slot);
    Event event{};
    event.kind = kind;
    event.source = static_cast<std::uint8_t>(slot.rule());
    event.device = opening.device.load(std::memory_order_relaxed);
    event.inode = opening.inode.load(std::memory_order_relaxed);
    event.offset = static_cast<std::uint64_t>(offset);
    event.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, UINT32_MAX));
    return event;
}

static bool is_too_short(const Region& region, const Slot& slot, std::uint64_t length) {
    return length < region.least_read[slot.rule() % kMaxClasses].load(std::memory_order_relaxed);
}

bool post_begun(int descriptor, const Slot& slot, std::int64_t offset, std::size_t asked) {
    Region* found = live_region();
    if (!found || in_vfork_child() || !wants(slot, kPostBegun) || is_too_short(*found, slot, asked)) return false;
    if (offset == kAtPosition) offset = raw_call(SYS_lseek, descriptor, 0, SEEK_CUR);
    if (offset < 0) return false;
    const bool cached = table.opening(slot).reads.load(std::memory_order_relaxed) == Reads::cached;
    const EventKind kind = cached ? EventKind::begun : EventKind::direct_begun;
    post(*found, event_of(slot, kind, offset, asked), nullptr, 0);
    wake(*found);
    return true;
}

void post_read(int descriptor, const Slot& slot, EventKind kind, std::int64_t offset, std::int64_t length,
               std::uint32_t took, std::size_t asked) {
    Region* found = live_region();
    if (!found || in_vfork_child()) return;
    const bool waited = has_waited(took, length);
    if (waited) {
        read_ahead_again(*found, descriptor, slot);
        producer.posted_after = kPostedAfter;
        producer.quick_looks = 0;
    } else if (!wants(slot, kPostReads)) {
        if (producer.posted_after == 0) {
            producer.quick_looks = std::min(producer.quick_looks + 1, 2 * kQuickLooks);
            return;
        }
        --producer.posted_after;
    }
    if (offset == kAtPosition) {
        // Other descriptors, threads and processes may share the position: only the kernel knows it.
        const long position = raw_call(SYS_lseek, descriptor, 0, SEEK_CUR);
        if (failed(position) || position < length) return;
        offset = position - length;
    }
    Event event = event_of(slot, kind, offset, static_cast<std::uint64_t>(length));
    event.took_ns = waited ? took : std::min(took, kSlowReadNs);
    const auto got = static_cast<std::uint64_t>(length), wished = std::max<std::uint64_t>(asked, got);
    const auto told = static_cast<std::uint32_t>(std::min<std::uint64_t>(wished, UINT32_MAX));
    post(*found, event, &told, wished > got ? sizeof told : 0);
    if (!waited) return;
    // Of what begins after a rest it would hear when the most of it is over. It says that it rests before it looks for
    // the last time: a post that does not see the one is seen by the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool rests = found->rests.load(std::memory_order_relaxed) != 0;
    const bool is_of_use = !is_too_short(*found, slot, wished) && (length >= kLongRead || !wants(slot, kLetSleep));
    if (rests || is_of_use) wake(*found);
}

namespace {

Told tell_of(Slot& slot, const void* bytes, std::size_t length) {
    Region* found = live_region();
    if (!found || in_vfork_child()) return Told::nobody;
    if (runs_itself(*found, slot) && run_own(*found, slot, bytes, length)) return Told::itself;
    Event event{};
    event.kind = EventKind::ready;
    event.source = static_cast<std::uint8_t>(slot.rule());
    event.length = static_cast<std::uint32_t>(std::min<std::size_t>(length, kMaxPeek));
    post(*found, event, bytes, event.length);
    return Told::server;
}

}  // namespace

// A program that waits in the call itself rather than in epoll_wait: what it has just received is all there is to tell.
void post_ready(Slot& slot, const void* bytes, std::size_t length) {
    const bool peeked = (slot.peeked.fetch_and(~kPosted, std::memory_order_relaxed) & kPosted) != 0;
    if (!bytes || !wants(slot, kPostReady)) return;
    if (peeked) return look_at_answered(table.descriptor(slot));
    begin_anew();
    if (tell_of(slot, bytes, length) != Told::server) return;
    if (Region* found = region()) wake(*found);  // another thread may have made everything plain meanwhile
}

// Whether a look changes nothing that the program can see: it would move where the program's own looks begin
// (SO_PEEK_OFF). Asked each time: another descriptor of the socket, in another process perhaps, may set that as well.
static bool may_peek(int descriptor) {
    int offset = -1;
    socklen_t bytes = sizeof offset;
    const long asked = raw_call(SYS_getsockopt, descriptor, SOL_SOCKET, SO_PEEK_OFF, word(&offset), word(&bytes));
    return failed(asked) || offset < 0;
}

// Apart from its caller, since the bytes take much of a small stack.
[[gnu::noinline]] static Told peek(Slot& slot, int descriptor) {
    char bytes[kMaxPeek];
    const long got = raw_call(SYS_recvfrom, descriptor, word(bytes), sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (got <= 0) return Told::nobody;
    slot.peeked.fetch_or(kPosted, std::memory_order_relaxed);
    return tell_of(slot, bytes, static_cast<std::size_t>(got));
}

Told peek_ready(int descriptor) {
    Slot* slot = table.watched(descriptor);
    if (!slot || slot->kind() != Kind::socket || !wants(*slot, kPostReady)) return Told::nobody;
    if (slot->peeked.load(std::memory_order_relaxed) & kPosted || !may_peek(descriptor)) return Told::nobody;
    return peek(*slot, descriptor);
}

}  // namespace chainio::shim
