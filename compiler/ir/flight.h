// How many reads of one run of a chain are queued or under way at once, at most, and the memory of their blocks.
#pragma once
#include <cstdint>

#include "compiler/ir/ir.h"

namespace chainio::ir {

struct FlightBounds {
    std::uint32_t in_flight = 0;     // reads
    std::uint32_t largest_read = 0;  // bytes; 64 KiB for a length that is not a constant
    std::uint64_t block_memory = 0;  // bytes of the blocks in flight, each with its padding
};
FlightBounds flight_bounds(const Module&, const Chain&);

}  // namespace chainio::ir
