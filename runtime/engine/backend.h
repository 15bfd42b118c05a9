// Where an engine's blocks come from: the ring, plain preads, or a test's own idea of a disk.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/metrics/counters.h"
#include "runtime/metrics/fallbacks.h"
#include "runtime/ring/shared.h"
#include "runtime/umem/slab.h"

namespace chainio::engine {

struct ReadOp {
    std::uint64_t offset;
    std::uint8_t* data;
    std::uint32_t length;
    std::uint32_t file;           // slot that add_file returned
    std::uint32_t token;          // comes back with the completion
    std::uint64_t user_data = 0;  // of the chain that reads
};

struct ReadDone {
    std::uint32_t token;
    std::int32_t result;  // bytes, or -errno
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual std::string describe() const = 0;
    // How many reads may be under way.
    virtual unsigned capacity() const = 0;
    virtual bool add_file(std::uint32_t slot, int fd) = 0;
    virtual void remove_file(std::uint32_t slot) = 0;
    // Hands a read over; it starts at the next enter(), or before. The caller keeps to capacity().
    virtual void push(const ReadOp& op) = 0;
    // Starts what was pushed and waits until at least `wait_for` reads are done (0: does not wait). Returns how many
    // were written to `done`, or -errno. By somebody else's turns (below), what was pushed starts with the next of
    // them.
    virtual int enter(unsigned wait_for, std::span<ReadDone> done) = 0;
    // A read on the calling thread. With `only_cached` it does not wait for a device: -EAGAIN instead.
    virtual std::int32_t read_now(const ReadOp& op, bool only_cached) = 0;
    // The number under which the ring of others that it uses knows this memory for operations of theirs; -1: none.
    virtual int buffer_of(const std::uint8_t* data, std::size_t length) const {
        (void)data, (void)length;
        return -1;
    }
    // Registers what of the memory could not be while somebody else had locked some.
    virtual void register_rest() {}
    // A descriptor that poll() finds readable once a read is done, until the next enter(); -1 when there is none.
    virtual int poll_fd() { return -1; }
    // Whether reads go out, and completions come in, with the turns of a ring that others use and somebody else enters.
    virtual bool by_turns() const { return false; }
    // Whether reads under way are this process's. In a child made by fork they are its parent's, into whose memory they
    // go.
    virtual bool is_own() const { return true; }
};

struct RingBackendOptions {
    unsigned depth = 64;  // reads under way at most
    unsigned file_slots = 64;
    ring::Shared* shared = nullptr;  // the ring to use; null, or without a free seat: one of its own
    unsigned spin_us = 0;            // of one of its own
};
// io_uring with the slab's memory registered as far as allowed; plain preads (noted) where io_uring cannot be had.
std::unique_ptr<Backend> make_ring_backend(const RingBackendOptions& options, umem::Slab& slab,
                                           metrics::EngineCounters& counters, metrics::Fallbacks& fallbacks);
// Blocking preads, one after the other.
std::unique_ptr<Backend> make_plain_backend(unsigned file_slots, metrics::EngineCounters& counters);

}  // namespace chainio::engine
