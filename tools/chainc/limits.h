// The limits that compiled programs and chains must keep, and the refusals that name the line.
#pragma once
#include <cstdint>

namespace chainio::chainc {

struct Compilation;

inline constexpr std::uint64_t most_instructions = 1'000'000;  // what the kernel's verifier explores
inline constexpr std::uint32_t most_stack = 512;               // bytes of a BPF program's frames
inline constexpr std::uint64_t most_memory = 64 << 20;         // bytes of one run of a chain

void enforce_limits(Compilation&);  // before anything is compiled
void enforce_stack(Compilation&);   // what the compiled code needs

}  // namespace chainio::chainc
