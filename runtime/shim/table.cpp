#include "runtime/shim/table.h"

#include <sys/mman.h>

#include "runtime/shim/raw.h"

namespace chainio::shim {

bool Table::create() {
    const long bytes = static_cast<long>(kSlots * (sizeof(Slot) + sizeof(Opening)));
    const long memory =
        raw_call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (failed(memory)) return false;
    raw_call(SYS_madvise, memory, bytes, MADV_NOHUGEPAGE);  // a first touch must not cost a program two megabytes
    slots_ = reinterpret_cast<Slot*>(memory);               // zero bytes are valid slots and openings
    openings_ = reinterpret_cast<Opening*>(slots_ + kSlots);
    size_.store(kSlots, std::memory_order_release);
    return true;
}

void Table::put(int descriptor, Kind kind, unsigned rule, std::uint32_t link) {
    Slot& slot = slots_[descriptor];
    slot.link.store(link, std::memory_order_relaxed);
    slot.data.store(0, std::memory_order_relaxed);
    slot.peeked.store(0, std::memory_order_relaxed);
    if (kind != Kind::file) sockets_.fetch_add(1, std::memory_order_relaxed);
    int highest = highest_.load(std::memory_order_relaxed);
    while (highest < descriptor && !highest_.compare_exchange_weak(highest, descriptor)) {}
    slot.state.store(static_cast<std::uint32_t>(kind) | rule << 8, std::memory_order_release);
}

bool Table::put_file(int descriptor, unsigned rule, std::uint64_t device, std::uint64_t inode, Reads reads) {
    if (static_cast<unsigned>(descriptor) >= size()) return false;
    for (unsigned tries = 0; tries < kSlots; ++tries) {
        const std::uint32_t index = cursor_.fetch_add(1, std::memory_order_relaxed) % kSlots;
        Opening& opening = openings_[index];
        std::uint32_t free = 0;
        if (!opening.descriptors.compare_exchange_strong(free, 1)) continue;
        opening.mapped.store(0, std::memory_order_relaxed);
        opening.device.store(device, std::memory_order_relaxed);
        opening.inode.store(inode, std::memory_order_relaxed);
        opening.reads.store(reads, std::memory_order_relaxed);
        opening.advised.store(0, std::memory_order_relaxed);
        put(descriptor, Kind::file, rule, index);
        return true;
    }
    return false;
}

void Table::put_socket(int descriptor, Kind kind, unsigned rule) {
    if (static_cast<unsigned>(descriptor) < size()) put(descriptor, kind, rule, 0);
}

bool Table::duplicate(int from, int to) {
    Slot* slot = watched(from);
    if (!slot || from == to || static_cast<unsigned>(to) >= size()) return false;
    const Kind kind = slot->kind();
    const std::uint32_t link = kind == Kind::file ? slot->link.load(std::memory_order_relaxed) : 0;
    if (kind == Kind::file) openings_[link % kSlots].descriptors.fetch_add(1);
    put(to, kind, slot->rule(), link);
    return true;
}

Closed Table::clear(int descriptor) {
    Closed closed;
    Slot* slot = watched(descriptor);
    if (!slot) return closed;
    const std::uint32_t state = slot->state.exchange(0);
    if (state == 0) return closed;  // somebody else was quicker
    if (static_cast<Kind>(state & 0xff) != Kind::file) {
        sockets_.fetch_sub(1, std::memory_order_relaxed);
        return closed;
    }
    Opening& gone = opening(*slot);
    closed.rule = state >> 8 & 0xff;
    closed.device = gone.device.load(std::memory_order_relaxed);
    closed.inode = gone.inode.load(std::memory_order_relaxed);
    closed.last = gone.descriptors.fetch_sub(1) == 1;
    return closed;
}

}  // namespace chainio::shim
