// Upper bounds of what one run of a chain needs.
#pragma once
#include <cstdint>

#include "compiler/ir/artifact.h"

namespace chainio::chainc {

struct ChainBounds {
    std::uint32_t in_flight = 0;     // reads that may be queued at once
    std::uint32_t largest_read = 0;  // bytes
    std::uint64_t memory = 0;        // bytes: one cio_io with its areas, and a block for every read in flight
};
ChainBounds bounds_of(const ir::Artifact&, const ir::Chain&);

}  // namespace chainio::chainc
