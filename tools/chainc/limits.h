// The limits that compiled programs and chains must keep, and the refusals that name the line.
#pragma once
#include <cstdint>

namespace chainio::chainc {

struct Compilation;

// Executed by one run of a program, some 10 ms of a core. (The verifier's limit is on what it explores, which --verify shows.)
inline constexpr std::uint64_t most_instructions = 16'000'000;
inline constexpr std::uint32_t most_stack = 512;               // bytes of a BPF program's frames
inline constexpr std::uint64_t most_memory = 64 << 20;         // bytes of one run of a chain

void enforce_limits(Compilation&);  // before anything is compiled
void enforce_stack(Compilation&);   // what the compiled code needs

}  // namespace chainio::chainc
