#include "runtime/shim/post.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/shim/raw.h"

namespace chainio::shim {

constinit thread_local Producer producer [[gnu::tls_model("initial-exec")]];

namespace {

constexpr std::uint32_t kAskAgain = 4096;  // posts until a thread that found no free ring looks for one again
constexpr std::uint32_t kLookEach = 64;    // of threads of a process that find none, one in so many looks for dead ones
constexpr std::uint32_t kUnknownPids = UINT32_MAX;
constexpr std::uint8_t kNestedAtMost =
    64;  // after so many, the handler must have jumped out of the post that it interrupted
constexpr std::uint32_t kLostUntilLook = 256;  // lost events until a thread asks whether the server still lives

// Room in a ring for `bytes` behind `tail`, which may have to skip the ring's rest; 0 when there is none, else what is
// used up.
std::uint32_t room_for(std::uint32_t bytes, std::uint32_t tail, std::uint32_t head) {
    const std::uint32_t rest = kRingBytes - tail % kRingBytes;
    const std::uint32_t needed = rest < bytes ? rest + bytes : bytes;
    const std::uint32_t used = tail - head;
    return used <= kRingBytes && needed <= kRingBytes - used ? needed : 0;
}

std::uint32_t asked_pids() {
    struct stat status;
    const long result = raw_call(SYS_newfstatat, AT_FDCWD, word("/proc/self/ns/pid"), word(&status), 0);
    return failed(result) ? kUnknownPids : static_cast<std::uint32_t>(status.st_ino);
}

// Made at the first post, by whichever thread is the first.
std::uint32_t image_of(Region& region, Process& process, bool& is_new) {
    std::uint32_t image = process.image.load(std::memory_order_relaxed);
    if (image != 0) return image;
    const std::uint32_t count = region.images.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint32_t made = count != 0 ? count : 1;
    is_new = process.image.compare_exchange_strong(image, made);
    return is_new ? made : image;
}

// To ask after all owners takes some 100 us, for nothing where a process has more threads than there are rings.
Ring* find_ring(Region& region, Process& process, bool is_first) {
    // A ring that a child of vfork takes is its parent's, which goes on with it: the process's number is the parent's.
    const bool is_child = producer.thread != 0 && static_cast<std::uint32_t>(raw_call(SYS_getpid)) != producer.process;
    const auto thread = is_child ? producer.thread : static_cast<std::uint32_t>(raw_call(SYS_gettid));
    const Taker taker{thread, producer.process, pids_of(process), producer.image};
    if (is_first) free_of_earlier_images(region, taker);
    if (Ring* free = claim(region, taker)) return free;
    const bool looks = process.found_none.fetch_add(1, std::memory_order_relaxed) % kLookEach == 0;
    return looks ? take_over(region, taker) : nullptr;
}

Ring* ring_of_thread(Region& region, Process& process) {
    bool is_first = false;
    const std::uint32_t image = image_of(region, process, is_first);
    if (producer.ring && producer.image == image) return producer.ring;
    producer.ring = nullptr;
    if (producer.image == image && producer.refused != 0 && producer.refused++ % kAskAgain != 0) {
        region.stats.no_ring.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
    }
    producer.process = process_id(process);
    producer.image = image;
    producer.ring = find_ring(region, process, is_first);
    if (!producer.ring) {
        producer.refused = 1;
        region.stats.no_ring.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
    }
    producer.refused = 0;
    producer.seen_head = producer.ring->head.load(std::memory_order_acquire);
    return producer.ring;
}

// A full ring may mean that the server was killed before it could say so. In another PID namespace it looks dead, too:
// so this process goes on plain, and others find out for themselves.
void look_for_server(Region& region, Process& process, std::uint32_t lost) {
    if (lost % kLostUntilLook != 0) return;
    const std::uint32_t server = region.server.load(std::memory_order_relaxed);
    if (server != 0 && raw_call(SYS_kill, server, 0) == -ESRCH) process.alone.store(1, std::memory_order_relaxed);
}

// Whether the ring has memory. Touching a page for which its file system has no room would end the program; the kernel
// is asked first. Where it cannot be (before Linux 5.14), the server has made all of them.
bool has_memory(Ring& ring) {
    constexpr std::uintptr_t kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
    const std::uintptr_t page = getauxval(AT_PAGESZ);
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(&ring) / page * page;
    const std::uintptr_t bytes = reinterpret_cast<std::uintptr_t>(&ring + 1) - first;
    const long result = raw_call(SYS_madvise, static_cast<long>(first), static_cast<long>(bytes), kPopulateWrite);
    return result == 0 || result == -EINVAL;
}

// Whoever sees the owner without kTaking sees the others as well. False: somebody else was quicker, or took it for
// given up meanwhile.
bool take(Region& region, unsigned index, std::uint32_t from, const Taker& taker) {
    Holder& holder = region.holders[index];
    std::uint32_t taking = taker.thread | kTaking;
    if (!holder.owner.compare_exchange_strong(from, taking)) return false;
    holder.process.store(taker.process);
    holder.pids.store(taker.pids);
    holder.image.store(taker.image);
    return holder.owner.compare_exchange_strong(taking, taker.thread);
}

bool was_taken_once(const Region& region, unsigned index) {
    return (region.used_rings[index / 64].load(std::memory_order_acquire) >> index % 64 & 1) != 0;
}

// A server that sleeps finds quick reads when it next looks, unless they are many.
void wake_if_filling(Region& region, Ring& ring) {
    constexpr std::uint32_t kHalf = kRingBytes / 2;
    const std::uint32_t tail = ring.tail.load(std::memory_order_relaxed);
    if (tail - producer.seen_head < kHalf) return;
    producer.seen_head = ring.head.load(std::memory_order_acquire);
    if (tail - producer.seen_head >= kHalf) wake(region);
}

}  // namespace

bool put(Ring& ring, std::uint32_t& seen_head, const Event& event, const void* payload, std::uint32_t payload_bytes) {
    const std::uint32_t bytes = (static_cast<std::uint32_t>(sizeof(Event)) + payload_bytes + 7) & ~7U;
    std::uint32_t tail = ring.tail.load(std::memory_order_relaxed);
    std::uint32_t needed = room_for(bytes, tail, seen_head);
    if (needed == 0) {
        seen_head = ring.head.load(std::memory_order_acquire);
        needed = room_for(bytes, tail, seen_head);
    }
    if (needed == 0) {
        ring.lost.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    if (needed > bytes) {
        const std::uint32_t rest = needed - bytes;
        if (rest >= sizeof(Event)) {
            Event skip{};
            skip.bytes = static_cast<std::uint16_t>(rest);
            skip.kind = EventKind::skip;
            std::memcpy(ring.data + tail % kRingBytes, &skip, sizeof skip);
        }
        tail += rest;
    }
    Event whole = event;
    whole.bytes = static_cast<std::uint16_t>(bytes);
    std::memcpy(ring.data + tail % kRingBytes, &whole, sizeof whole);
    if (payload_bytes != 0) std::memcpy(ring.data + tail % kRingBytes + sizeof whole, payload, payload_bytes);
    ring.tail.store(tail + bytes, std::memory_order_release);
    return true;
}

// Threads of PID namespaces that follow one another have the same numbers: by their images they come to different
// rings, of which the server sees each owner.
Ring* claim(Region& region, const Taker& taker) {
    bool room = true;  // for rings that nobody has taken yet
    for (unsigned i = 0; i < kRings; ++i) {
        const unsigned index = (taker.image + taker.thread + i) % kRings;
        const bool used = was_taken_once(region, index);
        if (!used && room) room = has_memory(region.rings[index]);
        if (!used && !room) continue;
        if (region.holders[index].owner.load(std::memory_order_relaxed) != 0 || !take(region, index, 0, taker))
            continue;
        region.used_rings[index / 64].fetch_or(std::uint64_t{1} << index % 64, std::memory_order_release);
        return &region.rings[index];
    }
    return nullptr;
}

// What is in such a ring the server still finds: the taker goes on behind it. Numbers of another PID namespace may
// belong to somebody who lives.
Ring* take_over(Region& region, const Taker& taker) {
    for (unsigned i = 0; i < kRings && taker.pids != 0; ++i) {
        const unsigned index = (taker.thread + i) % kRings;
        const Holder& holder = region.holders[index];
        if (!was_taken_once(region, index)) continue;
        const std::uint32_t owner = holder.owner.load(std::memory_order_acquire);
        if ((owner & kTaking) != 0 || holder.pids.load(std::memory_order_relaxed) != taker.pids) continue;
        const std::uint32_t process = holder.process.load(std::memory_order_relaxed);
        if (owner != 0 && raw_call(SYS_tgkill, process, owner, 0) != -ESRCH) continue;
        if (take(region, index, owner, taker)) return &region.rings[index];
    }
    return nullptr;
}

void free_of_earlier_images(Region& region, const Taker& taker) {
    for (unsigned i = 0; i < kRings && taker.pids != 0; ++i) {
        Holder& holder = region.holders[i];
        std::uint32_t owner = holder.owner.load(std::memory_order_acquire);
        if (owner == 0 || (owner & kTaking) != 0) continue;
        const bool is_earlier = holder.process.load(std::memory_order_relaxed) == taker.process &&
                                holder.pids.load(std::memory_order_relaxed) == taker.pids &&
                                holder.image.load(std::memory_order_relaxed) != taker.image;
        if (is_earlier) holder.owner.compare_exchange_strong(owner, 0);
    }
}

std::uint32_t pids_of(Process& process) {
    std::uint32_t pids = process.pids.load(std::memory_order_relaxed);
    if (pids == 0) {
        pids = asked_pids();
        process.pids.store(pids, std::memory_order_relaxed);
    }
    return pids == kUnknownPids ? 0 : pids;
}

bool is_numbered_elsewhere(Process& process) {
    const std::uint32_t known = pids_of(process);
    const std::uint32_t now = known != 0 ? asked_pids() : kUnknownPids;
    return now != kUnknownPids && now != known;
}

std::uint32_t process_id(Process& process) {
    std::uint32_t id = process.id.load(std::memory_order_relaxed);
    if (id == 0) {
        id = static_cast<std::uint32_t>(raw_call(SYS_getpid));
        process.id.store(id, std::memory_order_relaxed);
    }
    return id;
}

void post_event(Region& region, Process& process, Event event, const void* payload, std::uint32_t payload_bytes) {
    Ring* ring = ring_of_thread(region, process);
    if (!ring) return;
    if (producer.writing && ++producer.nested < kNestedAtMost) {
        ring->lost.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    producer.writing = true;
    producer.nested = 0;
    event.process = producer.process;
    const bool done = put(*ring, producer.seen_head, event, payload, std::min(payload_bytes, kMaxPath));
    producer.writing = false;
    wake_if_filling(region, *ring);
    if (!done) look_for_server(region, process, ring->lost.load(std::memory_order_relaxed));
}

bool owns_ring(const Process& process) {
    return producer.ring && producer.image == process.image.load(std::memory_order_relaxed);
}

void release_ring(Region& region, Process& process) {
    Ring* ring = producer.ring;
    const bool is_own = owns_ring(process);
    producer.ring = nullptr;
    if (!ring || !is_own) return;  // the ring of the parent that forked
    region.holders[ring - region.rings].owner.store(0, std::memory_order_release);
}

void wake(Region& region) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (region.asleep.load(std::memory_order_relaxed) == 0 || region.asleep.exchange(0) == 0) return;
    raw_call(SYS_futex, word(&region.asleep), FUTEX_WAKE, 1);
}

}  // namespace chainio::shim
