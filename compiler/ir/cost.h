// Upper bounds that are known before anything runs: executed BPF instructions, reads in flight, hops and memory.
#pragma once
#include <cstdint>
#include <vector>

#include "compiler/ir/artifact.h"

namespace chainio::ir {

// At least as many as the BPF code of the program executes in one run, whatever the block says. Saturates.
std::uint64_t instruction_bound(const Program&);

// Where a program's bound comes from: the dearest statement, and what in its rounds takes at least half of them, from
// the outermost in. One that is no loop has one round.
struct CostlyPart {
    Line line;
    std::uint64_t rounds = 1;
    std::uint64_t each = 0;  // instructions of a round
};
std::vector<CostlyPart> costly_parts(const Program&);

// What one run of a chain can use at most.
struct ChainBounds {
    std::uint32_t hops = 0;          // reads in all
    std::uint32_t in_flight = 0;     // reads queued or under way at once
    std::uint64_t memory = 0;        // bytes: the io area, and a block for each read in flight
    std::uint64_t block_bytes = 0;   // longest read
    std::uint64_t instructions = 0;  // of its costliest program
};
ChainBounds chain_bounds(const Module&, const IoLayout&, const Chain&);

}  // namespace chainio::ir
