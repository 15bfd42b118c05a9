#include "runtime/umem/descriptor_ring.h"

#include <bit>
#include <cstring>
#include <new>

namespace chainio::umem {
namespace {

bool aligned(std::span<std::uint8_t> memory) {
    return reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(RingHeader) == 0;
}

bool possible(std::uint32_t entries) { return entries >= 2 && entries <= kMostEntries && std::has_single_bit(entries); }

// The header's number of entries, once all of it was found right.
std::expected<std::uint32_t, std::string> entries_of(std::span<std::uint8_t> memory) {
    if (!aligned(memory)) return std::unexpected("the descriptor ring does not begin at a multiple of 64 bytes");
    if (memory.size() < sizeof(RingHeader))
        return std::unexpected("there is no room for a descriptor ring's header in " + std::to_string(memory.size()) +
                               " bytes");
    RingHeader* header = std::launder(reinterpret_cast<RingHeader*>(memory.data()));
    if (header->magic != kRingMagic) return std::unexpected("there is no descriptor ring in this memory");
    if (header->version != kRingVersion || header->entry_bytes != sizeof(Descriptor)) {
        return std::unexpected("the peer's descriptor ring is of version " + std::to_string(header->version) +
                               ", this program reads version " + std::to_string(kRingVersion) +
                               ": use the same version of ChainIO on both sides");
    }
    const std::uint32_t entries = std::atomic_ref(header->entries).load(std::memory_order_relaxed);
    if (!possible(entries) || ring_bytes(entries) > memory.size())
        return std::unexpected("the descriptor ring says that it has " + std::to_string(entries) +
                               " entries, which cannot be");
    return entries;
}

}  // namespace

std::expected<void, std::string> make_ring(std::span<std::uint8_t> memory, std::uint32_t entries) {
    if (!possible(entries))
        return std::unexpected("a descriptor ring has a power of two of entries, 2 to " + std::to_string(kMostEntries) +
                               ", not " + std::to_string(entries));
    if (!aligned(memory) || memory.size() < ring_bytes(entries))
        return std::unexpected("a descriptor ring of " + std::to_string(entries) + " entries needs " +
                               std::to_string(ring_bytes(entries)) + " bytes that begin at a multiple of 64");
    std::memset(memory.data(), 0, ring_bytes(entries));
    auto* header = new (memory.data()) RingHeader{};
    header->magic = kRingMagic;
    header->version = kRingVersion;
    header->entry_bytes = sizeof(Descriptor);
    header->entries = entries;
    return {};
}

Producer::Producer(RingHeader* header, std::uint32_t entries)
    : RingEnd(header, entries), tail_(header->tail.load(std::memory_order_relaxed)), seen_head_(tail_ - entries) {}

std::expected<Producer, std::string> Producer::attach(std::span<std::uint8_t> memory) {
    const auto entries = entries_of(memory);
    if (!entries) return std::unexpected(entries.error());
    return Producer(reinterpret_cast<RingHeader*>(memory.data()), *entries);
}

std::expected<bool, Fault> Producer::push(const Descriptor& descriptor) {
    if (tail_ - seen_head_ > mask_) {
        // Acquire: the consumer has read the entry before it is written again.
        const std::uint32_t head = header_->head.load(std::memory_order_acquire);
        if (tail_ - head > entries()) return std::unexpected(Fault::bad_index);
        seen_head_ = head;
        if (tail_ - head == entries()) return false;
    }
    *entry(tail_) = descriptor;
    // Release: whoever sees the new index sees the entry, and the bytes in its frame.
    header_->tail.store(++tail_, std::memory_order_release);
    return true;
}

Consumer::Consumer(RingHeader* header, std::uint32_t entries, Limits limits)
    : RingEnd(header, entries),
      limits_(limits),
      head_(header->head.load(std::memory_order_relaxed)),
      seen_tail_(head_) {}

std::expected<Consumer, std::string> Consumer::attach(std::span<std::uint8_t> memory, Limits limits) {
    const auto entries = entries_of(memory);
    if (!entries) return std::unexpected(entries.error());
    return Consumer(reinterpret_cast<RingHeader*>(memory.data()), *entries, limits);
}

std::expected<bool, Fault> Consumer::pop(Descriptor& out) {
    if (head_ == seen_tail_) {
        const std::uint32_t tail = header_->tail.load(std::memory_order_acquire);
        if (tail - head_ > entries()) return std::unexpected(Fault::bad_index);
        seen_tail_ = tail;
        if (tail == head_) return false;
    }
    // A copy of our own: what the peer writes after the check changes nothing.
    out = *entry(head_);
    header_->head.store(++head_, std::memory_order_release);
    if (auto checked = check(out, limits_); !checked) return std::unexpected(checked.error());
    return true;
}

}  // namespace chainio::umem
