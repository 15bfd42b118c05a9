// Runs the program of a shadow chain over what an event brought.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/engine/flight.h"
#include "runtime/shadow/files.h"
#include "runtime/spec/loaded.h"
#include "runtime/umem/zeroed.h"

namespace chainio::shadow {

class Runner {
  public:
    explicit Runner(const spec::Loaded& spec);

    // Where the event's bytes are put before run(): CIO_MAX_BLOCK of them.
    std::uint8_t* block() { return block_.data(); }
    struct Event {
        std::uint64_t offset = 0;  // of the block in the file
        std::uint32_t length = 0;  // of the block
        std::uint32_t total = 0;   // of the whole read; at an open, of the latest read of such a file
        const ShadowFile* file = nullptr;
        const std::vector<std::uint64_t>* header = nullptr;
        std::uint64_t mark = 0, last_mark = 0;    // of where the read began, and of where the chain last said something
        std::span<const std::uint8_t> arguments;  // of a probe, as protocol.h lays them out
    };
    // The outcome. With CIO_OK, prefetches() is what the program will want.
    std::uint32_t run(std::uint32_t chain, const Event& event);
    std::span<const cio_prefetch> prefetches() const;
    // The name in a prefetch; nothing when it lies outside of its space.
    std::optional<std::string_view> name_of(const cio_prefetch& prefetch) const;

  private:
    bool bind_probe(const ir::Chain& chain, std::span<const std::uint8_t> arguments);
    cio_io& io() const { return *reinterpret_cast<cio_io*>(memory_.base()); }
    std::uint8_t* area(std::uint32_t offset) const { return memory_.base() + offset; }

    const spec::Loaded& spec_;
    engine::LazyMemory memory_;
    umem::ZeroedVector<std::uint8_t> block_;
    std::uint32_t block_length_ = 0;
};

}  // namespace chainio::shadow
