// Descriptors from one thread to another, of the same or of another process, without a lock: one producer, one
// consumer. The ring lies in memory that both map, for example in a frame of the region that they share. Neither side
// believes the other: indexes and descriptors are copied out and checked, and what is wrong is answered with a Fault.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "runtime/umem/descriptor.h"

namespace chainio::umem {

inline constexpr std::uint32_t kRingMagic = 0x676e7263;  // "crng"
inline constexpr std::uint16_t kRingVersion = 1;
inline constexpr std::uint32_t kMostEntries = 2048;  // with the header it fits into the largest frame

// What lies at the beginning of the memory; the entries follow. Each index has a cache line of its own, since the other
// side's writes to it would else slow down the reads of its neighbour.
struct RingHeader {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t entry_bytes;
    std::uint32_t entries;  // a power of two
    std::uint32_t reserved[13];
    alignas(64) std::atomic<std::uint32_t> tail;  // written by the producer: entries ever pushed, modulo 2^32
    alignas(64) std::atomic<std::uint32_t> head;  // written by the consumer: entries ever popped, modulo 2^32
};
static_assert(sizeof(RingHeader) == 192);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

constexpr std::size_t ring_bytes(std::uint32_t entries) { return sizeof(RingHeader) + entries * sizeof(Descriptor); }

// Makes an empty ring there, before anybody else knows of it.
std::expected<void, std::string> make_ring(std::span<std::uint8_t> memory, std::uint32_t entries);

// The shared part of both ends.
class RingEnd {
  public:
    std::uint32_t entries() const { return mask_ + 1; }

  protected:
    RingEnd(RingHeader* header, std::uint32_t entries) : header_(header), mask_(entries - 1) {}
    Descriptor* entry(std::uint32_t index) const {
        return reinterpret_cast<Descriptor*>(header_ + 1) + (index & mask_);
    }
    RingHeader* header_;
    std::uint32_t mask_;  // read once and checked: what the peer writes there later changes nothing
};

class Producer : public RingEnd {
  public:
    static std::expected<Producer, std::string> attach(std::span<std::uint8_t> memory);
    // Whether the descriptor is in the ring; false: the ring is full. bad_index: the consumer took what was never
    // pushed.
    std::expected<bool, Fault> push(const Descriptor& descriptor);

  private:
    Producer(RingHeader* header, std::uint32_t entries);
    std::uint32_t tail_, seen_head_;
};

class Consumer : public RingEnd {
  public:
    static std::expected<Consumer, std::string> attach(std::span<std::uint8_t> memory, Limits limits);
    // Whether there was a descriptor. A bad one is taken out, so that the next pop sees the one behind it; after
    // bad_index the ring cannot be used any more.
    std::expected<bool, Fault> pop(Descriptor& out);
    // How many there are to pop, as the producer says.
    std::uint32_t waiting() const { return header_->tail.load(std::memory_order_acquire) - head_; }

  private:
    Consumer(RingHeader* header, std::uint32_t entries, Limits limits);
    Limits limits_;
    std::uint32_t head_, seen_tail_;
};

}  // namespace chainio::umem
