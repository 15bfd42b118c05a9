// Buffers that the kernel receives into: it has some, and the others wait here. The one that came back last is the
// first to be handed over again, so that few of them are in use, and those are in the processor's caches.
#pragma once
#include <liburing.h>

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "runtime/engine/flight.h"

namespace chainio::service {

class Provided {
  public:
    // The kernel has at most `with_kernel` of them. Fewer than come between two turns would be asked for twice.
    Provided(std::uint32_t count, std::uint32_t bytes, std::uint32_t with_kernel);
    ~Provided();
    Provided(const Provided&) = delete;
    Provided& operator=(const Provided&) = delete;

    std::expected<void, std::string> hand_to(io_uring* ring, int group);
    std::uint8_t* data(std::uint32_t buffer) const { return memory_.base() + std::size_t{buffer} * bytes_; }
    // The kernel has received into one of them.
    void used();
    void give_back(std::uint32_t buffer);

  private:
    void provide(std::uint32_t buffer);

    std::uint32_t count_, bytes_, most_;
    engine::LazyMemory memory_;
    std::vector<std::uint32_t> waiting_;
    std::uint32_t with_kernel_ = 0;
    io_uring* ring_ = nullptr;
    io_uring_buf_ring* provided_ = nullptr;
    int group_ = 0;
};

}  // namespace chainio::service
